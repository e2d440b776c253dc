"""Responses of calls by handles: results to come, and streams of them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Generator
from typing import Any

import kernel
from kernel_serve.errors import DeploymentError, RequestTimeoutError
from kernel_serve.routing.loops import data_loop, in_data_loop, on_data_loop
from kernel_serve.routing.sending import FAILED, ITEM, OVER, RESULT, HandleCall, Pending, Stored, loaded
from kernel_serve.value_checks import seconds


class _Response(Pending):
    def __init__(self, call: HandleCall) -> None:
        self.call = call
        self._given_up = False

    @property
    def request_id(self) -> str:
        """The id of the request in all logs."""
        return str(self.call.meta["id"])

    def cancel(self) -> None:
        """Cancel the call: asking for its result raises RequestCancelledError, and its coroutine is cancelled."""
        self._given_up = self._given_up or not self.call.over
        data_loop().call_soon_threadsafe(self.call.cancel)

    def cancelled(self) -> bool:
        """Return whether the call was cancelled before it was known to be over. It may have been carried out."""
        return self._given_up

    def __reduce__(self) -> Any:
        raise DeploymentError(
            f"the response of {self.call.key}.{self.call.meta['method']}() can't be sent within another value, or to a "
            "task: hand it to a call as an argument of its own, or send its result (await it, or result())"
        )

    def _wait(self, timeout: float | None) -> None:
        """Wait, in this thread, for the next outcome."""
        if in_data_loop():
            raise DeploymentError(
                "result() would stop the event loop of this replica, which is to bring the result: "
                "await the response instead, in an async method"
            )
        call = self.call
        there = threading.Event()
        if call.listen(there.set) and not there.wait(timeout):
            raise RequestTimeoutError(
                f"{call.key}.{call.meta['method']}() has not returned within {timeout:g} s; it goes on (see cancel())"
            )

    async def _wait_async(self) -> None:
        """Wait, in this event loop, for the next outcome. If the waiting task is cancelled, cancel the call."""
        loop = asyncio.get_running_loop()
        there: asyncio.Future[None] = loop.create_future()

        def tell() -> None:
            if not there.done():
                there.set_result(None)

        def tell_there() -> None:
            with contextlib.suppress(RuntimeError):  # That loop is closed.
                loop.call_soon_threadsafe(tell)

        if self.call.listen(tell if in_data_loop() else tell_there):
            try:
                await there
            except asyncio.CancelledError:
                self.cancel()
                raise


class DeploymentResponse(_Response):
    """The result of a call, to come. `await` it, or ask for its `result()`; pass it to other calls as an argument."""

    _loaded: Any = None
    _is_loaded = False

    def result(self, timeout_s: float | None = None) -> Any:
        """Wait for the result and return it, in a thread without an event loop.

        Raises what the deployment raised, RequestTimeoutError after `timeout_s` seconds, or another RequestError;
        DeploymentError for a bad `timeout_s`.
        """
        seconds("timeout_s", timeout_s)
        if not self.call.over:
            self._wait(timeout_s)
        return self._load()

    def _to_object_ref_sync(self) -> kernel.ObjectRef:
        """Wait for the result, and put it into the object store: tasks and actors take no responses as arguments."""
        return self._put(self.result())

    async def _to_object_ref(self) -> kernel.ObjectRef:
        """Do the same in an event loop."""
        return self._put(await self)

    def _put(self, value: Any) -> kernel.ObjectRef:
        _, payload = self.call.outcomes[-1]
        return payload.reference if type(payload) is Stored else kernel.put(value)

    def __await__(self) -> Generator[Any, None, Any]:
        return self._result_async().__await__()

    async def _result_async(self) -> Any:
        while not self.call.over:
            await self._wait_async()
        return self._load()

    def _load(self) -> Any:
        if not self._is_loaded:
            kind, payload = self.call.outcomes[-1]
            if kind == FAILED:
                raise payload
            self._loaded, self._is_loaded = loaded(payload), True
        return self._loaded


class DeploymentResponseGenerator(_Response):
    """The items that a call yields, as they come. Iterate over it, with `async for` in an event loop."""

    def __del__(self) -> None:
        if not self.call.over:  # Without the generator no more items can be requested.
            with contextlib.suppress(RuntimeError):
                self.cancel()

    def __iter__(self) -> DeploymentResponseGenerator:
        return self

    def __next__(self) -> Any:
        while not self.call.outcomes:
            self._wait(None)
        found, item = self._take()
        if not found:
            raise StopIteration
        return item

    def __aiter__(self) -> DeploymentResponseGenerator:
        return self

    async def __anext__(self) -> Any:
        while not self.call.outcomes:
            await self._wait_async()
        found, item = self._take()
        if not found:
            raise StopAsyncIteration
        return item

    def _take(self) -> tuple[bool, Any]:
        kind, payload = self.call.outcomes[0]
        if kind == ITEM:
            self.call.outcomes.popleft()
            if self.call.held and not self.call.outcomes:
                on_data_loop(self.call.take_more)
            return True, loaded(payload)
        if kind == RESULT:
            raise DeploymentError(f"{self.call.key}.{self.call.meta['method']}() did not yield, but return")
        if kind == OVER:
            return False, None
        raise payload

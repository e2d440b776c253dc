"""One call by a handle, from the arguments to the result, on the data loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from kernel import ObjectRef
from kernel_serve import tracing
from kernel_serve.errors import (
    DeploymentError,
    DeploymentUnavailableError,
    RequestCancelledError,
    RequestTimeoutError,
    ServeError,
    UserCodeError,
    said_by,
)
from kernel_serve.routing.dispatcher import Dispatcher, RoutedRequest
from kernel_serve.routing.router import process_router
from kernel_serve.wire.arguments import ArgumentPart, Encoded, encode
from kernel_serve.wire.link import EVENT_COST, Exchange
from kernel_serve.wire.pickling import loads
from kernel_spec.errors import ActorError, ObjectLostError, TaskError

ITEM, RESULT, OVER, FAILED = range(4)
_COLLECT = "ReplicaActor.collect"
_AHEAD = 256 << 10
"""The number of bytes of items that may wait here to be asked for.

Further ones wait in the replica, and stop it in time.
"""


class HandleCall:
    """Represents a call of a deployment's method. `begin` and what follows run on the data loop.

    Outcomes are put into `outcomes` as (kind, payload): items of a stream, and at last a result, the stream's end, or a
    failure. `listen(function)` has `function` called once, on the data loop, when there is another one. The reader of
    items calls `take_more` when none is left and the call is `held`.
    """

    def __init__(
        self,
        key: str,
        meta: dict[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        timeout: float | None,
        repeatable: bool,
    ) -> None:
        self.key = key
        self.meta = meta
        self._args, self._kwargs = args, kwargs
        self._timeout = timeout
        self._repeatable = repeatable
        self._exchange: Exchange | None = None
        self._request: RoutedRequest | None = None
        self._dispatcher: Dispatcher | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._encoded: Encoded | None = None
        self._kept: Sequence[ObjectRef] = ()
        """References that keep what the replica may still have to read its arguments from."""
        self._refusal: Exception | None = None
        self._pieces: list[bytes] = []
        self._missing = self._ahead = 0
        self.held = self._collecting = False
        self._resolving: asyncio.Task[None] | None = None
        self.outcomes: deque[tuple[int, Any]] = deque()
        self.over = False
        self.span: Any = None
        """The span of the whole call, where calls are traced."""
        self._listeners: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    # -- sending -----------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Pickle the arguments, in the caller's thread, so that the caller may change them afterwards.

        Raises nothing.
        """
        if any(_is_pending(each) for each in (*self._args, *self._kwargs.values())):
            return
        try:
            self._encoded = encode(self._args, self._kwargs)
        except Exception as error:
            self._refusal = error
        self._args, self._kwargs = (), {}

    def begin(self) -> None:
        """Send the call, once its arguments are there."""
        if self.over:
            return
        if self._refusal is not None:
            self._end(FAILED, self._refusal)
            return
        if self._timeout is not None:
            self._timer = asyncio.get_running_loop().call_later(self._timeout, self._too_late)
        try:
            if self._encoded is not None:
                self._submit(*self._encoded)
            else:
                self._resolving = asyncio.get_running_loop().create_task(self._resolve())
        except Exception as error:
            self._end(FAILED, error)

    async def _resolve(self) -> None:
        """Wait for the arguments that are results of other calls; these are passed on as they come."""
        try:
            parts: list[bytes | ObjectRef] = []

            async def settled(argument: Any) -> Any:
                if isinstance(argument, ObjectRef):
                    await asyncio.wrap_future(argument.future(read=False))  # only the replica reads it
                    parts.append(argument)
                elif isinstance(argument, Pending):
                    parts.append(await argument.call.raw_result())
                else:
                    return argument
                return ArgumentPart(len(parts) - 1)

            args = tuple([await settled(each) for each in self._args])
            kwargs = {name: await settled(each) for name, each in self._kwargs.items()}
            self._args, self._kwargs = (), {}
            self._submit(*encode(args, kwargs, parts))
        except Exception as error:
            self._end(FAILED, error)

    def _submit(self, body: bytes, parts: Any, kept: Sequence[ObjectRef]) -> None:
        if parts:
            self.meta["parts"] = parts
        self._encoded, self._kept = None, kept
        request = self._request = RoutedRequest(self.meta, body, True, self._answered, self._failed, self._repeatable)
        dispatcher = self._dispatcher = process_router().dispatcher(self.key)
        dispatcher.submit(request)

    def _too_late(self) -> None:
        self.cancel(
            RequestTimeoutError(f"{self.key}.{self.meta['method']}() did not return within {self._timeout:g} s")
        )

    def cancel(self, error: Exception | None = None) -> None:
        """Cancel the call: it fails with `error`, and the replica cancels its work."""
        if self.over:
            return
        if self._resolving is not None:
            self._resolving.cancel()
        request, exchange = self._request, self._exchange
        self._end(FAILED, error or RequestCancelledError(f"the call of {self.key} was cancelled"))
        if request is not None and self._dispatcher is not None:
            self._dispatcher.cancel(request)
        if exchange is not None:
            exchange.abort({"reason": "cancelled"})

    # -- receiving ---------------------------------------------------------------------------------------------------

    def _answered(self, exchange: Exchange) -> None:
        if self.over:
            exchange.abort({"reason": "cancelled"})
            return
        self._exchange = exchange
        exchange.wake = self._take
        self._take()

    def _failed(self, error: Exception) -> None:
        self._end(FAILED, error)

    def take_more(self) -> None:
        """Take more items: all that there were have been taken away. On the data loop."""
        self._ahead, self.held = 0, False
        if self._exchange is not None:
            self._take()

    def _take(self) -> None:
        exchange = self._exchange
        assert exchange is not None
        while exchange.has_event and not (self.over or self.held or self._collecting):
            meta, body, end = exchange.take()
            if meta is not None and "stored" in meta:
                self._collect(exchange, meta["stored"], meta.get("error", ""))
            elif meta is not None and "error" in meta:
                self._end(FAILED, self._user_error(_loaded_error(body), meta["error"]))
            elif meta is not None and "over" in meta:
                self._end(OVER, None)
            elif end:
                self._end(RESULT, b"".join((*self._pieces, body)) if self._pieces else body)
            elif body:
                self._piece(meta, body)
        if exchange.failure is not None and not (exchange.has_event or self.over or self._collecting):
            self._lost(exchange.failure)

    def _lost(self, cause: Exception) -> None:
        lost = f"a replica of {self.key} was lost while it had the call ({said_by(cause)})"
        self._end(FAILED, DeploymentUnavailableError(f"{lost}; it may or may not have been carried out"))

    def _collect(self, exchange: Exchange, number: int, described: str) -> None:
        """Have the replica put a result, or an item, into the object store, and read it there.

        If the value is an exception, which `described` has as text, the replica's actor raises it instead.
        """
        loop = asyncio.get_running_loop()
        reference = exchange.link.actor.collect.remote(number)
        self._collecting = True
        read = reference.future()
        read.add_done_callback(
            lambda read: loop.call_soon_threadsafe(self._collected, exchange, reference, read, described)
        )

    def _collected(self, exchange: Exchange, reference: ObjectRef, read: Future[Any], described: str) -> None:
        self._collecting = False
        if self.over:
            return
        error = _as_raised(read.exception())
        if isinstance(error, (ActorError, ObjectLostError, ServeError)):
            exchange.abort({"reason": "cancelled"})
            self._lost(error)
        elif isinstance(error, Exception) and described:
            carried = not isinstance(error, TaskError) or error.cause is not None
            self._end(FAILED, self._user_error(error if carried else None, described))
        elif isinstance(error, Exception):
            exchange.abort({"reason": "cancelled"})
            self._end(FAILED, error)
        elif self.meta.get("stream"):
            self.held = True  # one at a time: each is larger than all that may wait here
            self.outcomes.append((ITEM, Stored(reference, read.result())))
            self._tell()
        else:
            self._end(RESULT, Stored(reference, read.result()))

    def _user_error(self, error: Exception | None, described: str) -> Exception:
        """Return the exception that the deployment raised, with its remote traceback attached."""
        raised = f"{self.key}.{self.meta['method']}()"
        if error is None:
            return UserCodeError(f"{raised} raised:\n{described}")
        error.__cause__ = RemoteTraceback(f"in {raised}:\n{described}")
        return error

    def _piece(self, meta: Any, body: bytes) -> None:
        """Take a piece of a result, or of an item. The first of several pieces of an item has its size in `meta`."""
        if not self.meta.get("stream"):
            self._pieces.append(body)
            return
        if meta is not None:
            self._missing = meta["size"]
        if self._missing:
            self._pieces.append(body)
            self._missing -= len(body)
            if self._missing:
                return
            body = b"".join(self._pieces)
            self._pieces.clear()
        self._ahead += len(body) + EVENT_COST
        self.held = self._ahead >= _AHEAD  # before the item is there: see take_more
        self.outcomes.append((ITEM, body))
        self._tell()

    def _end(self, kind: int, payload: Any) -> None:
        if self.over:
            return
        if self._timer is not None:
            self._timer.cancel()
        if self.span is not None and tracing.active is not None:
            tracing.active.over(self.span, payload if kind == FAILED else None)
        self.outcomes.append((kind, payload))
        self.over = True
        if self._exchange is not None:
            self._exchange.wake = None
        self._kept = ()
        self._request = self._exchange = None  # they know this call, and what is large must not wait for gc
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def listen(self, function: Callable[[], None]) -> bool:
        """Call `function` at the next outcome, from the data loop. If there is one already, return False instead."""
        with self._lock:
            if self.over or self.outcomes:
                return False
            self._listeners.append(function)
            return True

    async def raw_result(self) -> bytes | ObjectRef:
        """Return the pickled result, or the reference to it, on the data loop. Raises what the call raised."""
        if self.meta.get("stream"):
            raise DeploymentError(
                f"{self.key}.{self.meta['method']}() is a stream, which can't be an argument of a call"
            )
        if not self.over:
            done = asyncio.get_running_loop().create_future()
            self.listen(lambda: None if done.done() else done.set_result(None))
            await done
        kind, payload = self.outcomes[-1]
        if kind == RESULT:
            return payload.reference if type(payload) is Stored else payload  # type: ignore[no-any-return]
        raise payload


class Stored:
    """Marks a result, or an item, that came through the object store."""

    __slots__ = ("reference", "value")

    def __init__(self, reference: ObjectRef, value: Any) -> None:
        self.reference = reference
        self.value = value


def loaded(payload: bytes | Stored) -> Any:
    """Return the value of a result or an item."""
    return payload.value if type(payload) is Stored else loads(payload)  # type: ignore[arg-type]


class Pending:
    """Stands for a response among the arguments of another call."""

    call: HandleCall


def _is_pending(argument: Any) -> bool:
    return isinstance(argument, (Pending, ObjectRef))


def _loaded_error(pickled: bytes) -> Exception | None:
    """Return an exception; None if it did not travel, or can't be unpickled here."""
    try:
        error = loads(pickled) if pickled else None
    except Exception:
        return None
    return error if isinstance(error, Exception) else None


def _as_raised(error: Any) -> Any:
    """Return what the deployment raised, without the error of the method of Serve's that fetched it.

    An error of a task of the user's stays one.
    """
    if isinstance(error, TaskError) and isinstance(error.cause, Exception) and error.function_name == _COLLECT:
        return error.cause
    return error


class RemoteTraceback(ServeError):
    """Shows the traceback in the replica of an error that a deployment raised."""

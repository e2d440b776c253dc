"""`@serve.batch`: a handler of lists that is called with one request at a time.

A function whose first parameter is named `self` is a method: each instance has a queue of its own. The decorated
function stays an `async def` (or, for streams, an asynchronous generator) for all that inspect it.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

from kernel_serve.batching.answers import kind_of
from kernel_serve.batching.arguments import BatchParameters
from kernel_serve.batching.batcher import Batcher
from kernel_serve.batching.settings import BatchSettings, checked_number, checked_wait
from kernel_serve.errors import DeploymentError
from kernel_serve.methods import InstanceMethod, is_method


def batch(
    function: Callable[..., Any] | None = None,
    /,
    *,
    max_batch_size: int = 10,
    batch_wait_timeout_s: float = 0.01,
    max_concurrent_batches: int = 1,
    batch_size_fn: Callable[[Sequence[Any]], float] | None = None,
) -> Any:
    """Answer calls that come at about the same time by one call of the decorated handler, with lists of arguments.

    The handler returns a list with one result for each call, in order. Or it yields such lists, and each caller gets
    an asynchronous iterator of its items, which ends at an item that is StopIteration. An exception as a result is
    raised in its caller alone; an exception that the handler raises, in all callers. Plain `def` handlers run in a
    thread.

    A batch goes when it has `max_batch_size` requests, or when its first one has waited `batch_wait_timeout_s` seconds,
    if fewer than `max_concurrent_batches` are running. `batch_size_fn` takes a list of requests (their first arguments)
    and returns their size, by default their number. Requests for different multiplexed models never go together.

    `handler.set_max_batch_size(n)`, `handler.set_batch_wait_timeout_s(s)` and `handler.set_max_concurrent_batches(n)`
    change the settings of a running handler, or of one instance by the instance's method. Raises DeploymentError for a
    bad setting, and for a function that can't be called with lists.
    """
    settings = BatchSettings(max_batch_size, batch_wait_timeout_s, max_concurrent_batches, batch_size_fn)

    def decorate(function: Callable[..., Any]) -> Any:
        if not inspect.isfunction(function):
            raise DeploymentError(
                f"@serve.batch takes a function or a method, not {function!r}: "
                "put it closest to `def`, below other decorators"
            )
        name = function.__qualname__
        if is_method(function):
            return BatchedMethod(function, BatchParameters(function, name, True), settings)
        return bound_to(function, function, BatchParameters(function, name, False), replace(settings))

    return decorate if function is None else decorate(function)


class BatchedMethod(InstanceMethod):
    """Wraps a batched method of a class. Each instance has its own queue and settings."""

    def __init__(self, function: Callable[..., Any], parameters: BatchParameters, settings: BatchSettings) -> None:
        super().__init__(function)
        self._parameters = parameters
        self._settings = settings

    def made_for(self, handler: Callable[..., Any]) -> Any:
        return bound_to(self.function, handler, self._parameters, replace(self._settings))

    def __reduce__(self) -> Any:
        return BatchedMethod, (self.function, self._parameters, self._settings)


class Batchers:
    """Holds the batchers of one handler of one instance, one for each event loop from which it is called."""

    def __init__(
        self, name: str, handler: Callable[..., Any], parameters: BatchParameters, settings: BatchSettings
    ) -> None:
        self._made_of = (name, handler, parameters, settings)
        self._kind = kind_of(handler)
        self._by_loop: dict[asyncio.AbstractEventLoop, Batcher] = {}
        self._latest: Batcher | None = None

    def here(self) -> Batcher:
        """Return the batcher of the running event loop."""
        latest = self._latest
        loop = asyncio.get_running_loop()
        if latest is not None and latest.loop is loop:
            return latest
        batcher = self._by_loop.get(loop)
        if batcher is None:
            name, handler, parameters, settings = self._made_of
            for closed in [each for each in self._by_loop if each.is_closed()]:
                del self._by_loop[closed]
            batcher = self._by_loop[loop] = Batcher(name, handler, self._kind, parameters, settings)
        self._latest = batcher
        return batcher

    def set(self, **changes: Any) -> None:
        """Change settings, for waiting requests too."""
        for name, value in changes.items():
            setattr(self._made_of[3], name, value)
        for batcher in list(self._by_loop.values()):
            batcher.settings_changed()

    def __reduce__(self) -> Any:
        return Batchers, self._made_of  # Queues stay where their event loop is.


def bound_to(
    function: Callable[..., Any], handler: Callable[..., Any], parameters: BatchParameters, settings: BatchSettings
) -> Any:
    """Return `function` batched: it calls `handler`, which is `function` itself or bound to an instance."""
    batchers = Batchers(function.__qualname__, handler, parameters, settings)
    arguments = parameters.of_call
    wrapper: Any

    if kind_of(function).streams:

        @functools.wraps(function)
        async def stream(*args: Any, **named: Any) -> AsyncIterator[Any]:
            async for item in batchers.here().stream(arguments(args, named)):
                yield item

        wrapper = stream
    else:

        @functools.wraps(function)
        async def call(*args: Any, **named: Any) -> Any:
            return await batchers.here().call(arguments(args, named))

        wrapper = call
    wrapper.__signature__ = parameters.signature
    wrapper.set_max_batch_size = functools.partial(_set_max_batch_size, batchers)
    wrapper.set_batch_wait_timeout_s = functools.partial(_set_batch_wait_timeout_s, batchers)
    wrapper.set_max_concurrent_batches = functools.partial(_set_max_concurrent_batches, batchers)
    return wrapper


def _set_max_batch_size(batchers: Batchers, value: int) -> None:
    batchers.set(max_batch_size=checked_number("max_batch_size", value))


def _set_batch_wait_timeout_s(batchers: Batchers, value: float) -> None:
    batchers.set(wait_seconds=checked_wait(value))


def _set_max_concurrent_batches(batchers: Batchers, value: int) -> None:
    batchers.set(max_concurrent_batches=checked_number("max_concurrent_batches", value))

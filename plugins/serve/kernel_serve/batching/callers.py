"""Callers that wait for their part of a batch's answer: for one result, or for a stream of items."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextvars import Context
from typing import Any

from kernel_serve.batching.arguments import Arguments
from kernel_serve.batching.queue import Item
from kernel_serve.context import RequestContext

END = object()
"""The result of `StreamingCaller.next_item` after the last item."""


class BatchCaller(Item):
    """Represents a caller with `arguments`, in `context` and for `request`.

    Its value, by which a batch is sized, is the first argument.
    """

    __slots__ = ("arguments", "batch", "context", "gone", "request", "task")

    def __init__(self, arguments: Arguments, since: float, request: RequestContext, context: Context) -> None:
        super().__init__(arguments[0], since, request.multiplexed_model_id)
        self.arguments = arguments
        self.request = request
        self.context = context
        self.batch: Sequence[BatchCaller] = ()
        """The callers of its batch; () while it waits."""
        self.task: asyncio.Task[None] | None = None
        self.gone = False
        """Whether it can't take anything any more."""

    def give(self, item: Any) -> None:
        """Give it its result or its next item; an exception is raised in it."""
        raise NotImplementedError

    def fail(self, error: BaseException) -> None:
        """Raise `error` in it, after what it was given."""
        raise NotImplementedError

    def end(self) -> None:
        """End its items, after what it was given."""


class Awaiting(BatchCaller):
    """Waits for one result."""

    __slots__ = ("result",)

    result: asyncio.Future[Any]

    def give(self, item: Any) -> None:
        if isinstance(item, BaseException):
            self.fail(item)
        elif not self.result.done():
            self.result.set_result(item)

    def fail(self, error: BaseException) -> None:
        if not self.result.done():
            self.result.set_exception(_carriable(error))


class StreamingCaller(BatchCaller):
    """Waits for items. Items that it has not taken yet are kept: a slow caller delays no other one."""

    __slots__ = ("_given", "_ready")

    def __init__(self, arguments: Arguments, since: float, request: RequestContext, context: Context) -> None:
        super().__init__(arguments, since, request, context)
        self._given: deque[tuple[Any, BaseException | None]] = deque()
        self._ready = asyncio.Event()

    def give(self, item: Any) -> None:
        if item is StopIteration or item is StopAsyncIteration or isinstance(item, (StopIteration, StopAsyncIteration)):
            self.end()
        elif isinstance(item, BaseException):
            self.fail(item)
        else:
            self._put(item, None)

    def fail(self, error: BaseException) -> None:
        self._put(None, _carriable(error))
        self.gone = True

    def end(self) -> None:
        self._put(END, None)
        self.gone = True

    def _put(self, item: Any, error: BaseException | None) -> None:
        if not self.gone:
            self._given.append((item, error))
            self._ready.set()

    async def next_item(self) -> Any:
        """Return the next item, END after the last. Raises the error that `fail` was given."""
        while not self._given:
            self._ready.clear()
            await self._ready.wait()
        item, error = self._given.popleft()
        if error is not None:
            raise error
        return item


def _carriable(error: BaseException) -> BaseException:
    """Return `error`, or a substitute if a future or a generator would take it for its end."""
    if isinstance(error, (StopIteration, StopAsyncIteration)):
        return RuntimeError(f"the batched handler raised {error!r}")
    return error

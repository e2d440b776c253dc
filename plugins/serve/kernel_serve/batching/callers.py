"""Those who wait for a part of a batch's answer: for one result, or for items until there are no more."""

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
"""What `StreamingCaller.next_item` returns when there are no more."""


class BatchCaller(Item):
    """Someone with `arguments`, made in `context` for `request`. Its value, by which a batch is sized, is the first."""

    __slots__ = ("arguments", "batch", "context", "gone", "request", "task")

    def __init__(self, arguments: Arguments, since: float, request: RequestContext, context: Context) -> None:
        super().__init__(arguments[0], since, request.multiplexed_model_id)
        self.arguments = arguments
        self.request = request
        self.context = context
        self.batch: Sequence[BatchCaller] = ()
        """Those with whom it went; empty while it waits."""
        self.task: asyncio.Task[None] | None = None
        self.gone = False
        """Whether nothing that is given can reach it any more."""

    def give(self, item: Any) -> None:
        """Give it its result or its next item; an exception is raised to it."""
        raise NotImplementedError

    def fail(self, error: BaseException) -> None:
        """Raise `error` to it, after what it has been given."""
        raise NotImplementedError

    def end(self) -> None:
        """Let its items end, after what it has been given."""


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
    """Waits for items. Those that it does not take are kept for it: a slow one holds up no other."""

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
        """Return the next item, END after the last. Raises what it was failed with."""
        while not self._given:
            self._ready.clear()
            await self._ready.wait()
        item, error = self._given.popleft()
        if error is not None:
            raise error
        return item


def _carriable(error: BaseException) -> BaseException:
    """Return `error`, or one in its place where a future or a generator would take it for an end."""
    if isinstance(error, (StopIteration, StopAsyncIteration)):
        return RuntimeError(f"the batched handler raised {error!r}")
    return error

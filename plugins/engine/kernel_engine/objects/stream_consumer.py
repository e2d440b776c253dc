"""Take items from streams: blocking, or for an event loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kernel.runtime.object_entry import ObjectEntry
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.streams import NO_MORE, ObjectStream, abandoned, resolve_future
from kernel.runtime.waiter import Waiter
from kernel_engine.messages import process_messages as op
from kernel_engine.objects.futures import OnAwait, call_in
from kernel_spec.errors import GetTimeoutError, SessionEndedError

if TYPE_CHECKING:
    import asyncio

    from kernel_engine.surroundings import EngineProcess

Block = Callable[[Waiter, list[ObjectEntry], "float | None"], bool]


class StreamConsumer:
    """Reads the streams of this process. Any thread may use it.

    `block(waiter, entries, deadline)` waits as `get` does for entries, and `explain(entry)` returns what one waits for.
    """

    def __init__(self, process: EngineProcess, block: Block, explain: Callable[[ObjectEntry], str]) -> None:
        self._process = process
        self._block = block
        self._explain = explain
        self.on_await: OnAwait | None = None
        """As that of `Futures`, for the future of an item."""
        process.after_batch(abandoned, self._close_abandoned)

    def next_item(self, stream: ObjectStream, timeout: float | None) -> ObjectRef:
        """Return the next reference, waiting for it; raises StopIteration at the end, GetTimeoutError too late."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            waiter = Waiter(1)
            with self._process.lock:
                ref, ended = self._take(stream)
                if ref is None and not ended:
                    stream.when_changed(waiter)
            if ref is not None:
                return ref
            if ended:
                raise StopIteration
            if self._process.ended is not None:
                raise SessionEndedError(self._process.ended)
            assert stream.completed is not None
            end = stream.completed._entry
            try:
                done = self._block(waiter, [end], deadline)
            finally:
                if waiter.remaining > 0:
                    with self._process.lock:
                        stream.forget(waiter)
            if not done:
                why = self._explain(end)
                raise GetTimeoutError(
                    f"the stream of task {stream.task.hex()} yielded nothing within {timeout} s: {why}"
                )

    def take_item(self, stream: ObjectStream) -> tuple[ObjectRef | None, bool]:
        """Return the next reference if there is one, and whether the stream has ended."""
        with self._process.lock:
            return self._take(stream)

    def item_arrival(self, stream: ObjectStream, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """Return a future that is done when the stream has changed."""
        future: asyncio.Future[None] = loop.create_future()
        with self._process.lock:
            if stream.items or stream.finished:
                future.set_result(None)
            else:
                stream.when_changed(lambda: call_in(loop, partial(resolve_future, future)))
        if self.on_await is not None and not future.done():
            self.on_await(loop, future)
        return future

    def next_arrival(self, stream: ObjectStream) -> ObjectEntry:
        """Return an entry that is ready when there is something to take, or the end."""
        with self._process.lock:
            return stream.next_arrival()

    def close(self, stream: ObjectStream) -> None:
        """Take no more items, and have the worker stop the generator."""
        with self._process.lock:
            self._close(stream)
        self._process.flush_soon()

    def _close_abandoned(self) -> None:
        """Close abandoned streams, which can't be read any more. Under the lock."""
        while abandoned:
            self._close(abandoned.popleft())

    def _close(self, stream: ObjectStream) -> None:
        stream.closed = True
        stream.take_all()
        if not stream.awaited:
            self._report(stream, NO_MORE)

    def _take(self, stream: ObjectStream) -> tuple[ObjectRef | None, bool]:
        ref = stream.take()
        if ref is not None and stream.limit:
            self._report(stream, stream.taken)
        return ref, stream.finished

    def _report(self, stream: ObjectStream, taken: int) -> None:
        sender = stream.sender
        if sender is not None and not sender.closed:
            self._process.send(sender, (op.STREAM_TAKEN, stream.task, taken))

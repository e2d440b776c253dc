"""Taking items from streams: blocking, or for an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from kernel.runtime import operations as op
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.process import Process
from kernel.runtime.streams import Stream, abandoned, resolve_future
from kernel.runtime.waiting import Waiter
from kernel_spec.errors import GetTimeoutError, SessionEndedError


class StreamConsumer:
    """Reads the streams of this process. Any thread."""

    def __init__(self, process: Process, ended: Callable[[], str | None]) -> None:
        self._process = process
        self._ended = ended
        process.after_batch.append(self.close_abandoned)

    def next_item(self, stream: Stream, timeout: float | None) -> ObjectRef:
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
            reason = self._ended()
            if reason is not None:
                raise SessionEndedError(reason)
            done = self._process.pump.wait(waiter, deadline)
            self._process.raise_interrupt()
            if not done:
                raise GetTimeoutError(f"the stream of task {stream.task.hex()} yielded nothing within {timeout} s")

    def take_item(self, stream: Stream) -> tuple[ObjectRef | None, bool]:
        """Return the next reference if there is one, and whether the stream has ended."""
        with self._process.lock:
            return self._take(stream)

    def item_arrival(self, stream: Stream, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """Return a future that is done when the stream has changed."""
        future: asyncio.Future[None] = loop.create_future()
        with self._process.lock:
            if stream.items or stream.finished:
                future.set_result(None)
            else:
                stream.when_changed(lambda: loop.call_soon_threadsafe(resolve_future, future))
        return future

    def close(self, stream: Stream) -> None:
        """Take no more items, and tell the worker."""
        with self._process.lock:
            self._close(stream)
        self._process.flush_soon()

    def close_abandoned(self) -> None:
        """Close the streams that nobody can read any more. Under the lock."""
        while abandoned:
            self._close(abandoned.popleft())

    def _close(self, stream: Stream) -> None:
        stream.closed = True
        stream.take_all()
        self._report(stream, -1)

    def _take(self, stream: Stream) -> tuple[ObjectRef | None, bool]:
        ref = stream.take()
        if ref is not None and stream.limit:
            self._report(stream, stream.taken)
        return ref, stream.finished

    def _report(self, stream: Stream, taken: int) -> None:
        sender = stream.sender
        if sender is not None and not sender.closed:
            self._process.send(sender, (op.STREAM_TAKEN, stream.task, taken))

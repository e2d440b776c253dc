"""Streams, as their reader sees them. The generator's side is in `calls`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kernel.runtime.object_entry import ObjectEntry
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.streams import ObjectStream, resolve_future
from kernel_engine.objects.futures import call_in
from kernel_engine.one_process.objects import OneProcessObjects
from kernel_spec.errors import GetTimeoutError

if TYPE_CHECKING:
    import asyncio


class OneProcessStreams(OneProcessObjects):
    """`kernel.runtime.interface.StreamRuntime`."""

    def next_item(self, stream: ObjectStream, timeout: float | None) -> ObjectRef:
        """Return the next reference, waiting for it. Raises StopIteration at the end, GetTimeoutError too late."""
        if not self.wait_until(lambda: stream.items or stream.finished, timeout):
            raise GetTimeoutError(f"the stream of task {stream.task.hex()} yielded nothing within {timeout} s")
        ref, _ = self.take_item(stream)
        if ref is None:
            raise StopIteration
        return ref

    def take_item(self, stream: ObjectStream) -> tuple[ObjectRef | None, bool]:
        """Return the next reference if there is one, and whether the stream has ended."""
        with self.changed:
            self.changed.notify_all()  # the generator may wait for its reader
            return stream.take(), stream.finished

    def item_arrival(self, stream: ObjectStream, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """Return a future that is done when the stream has changed."""
        future: asyncio.Future[None] = loop.create_future()
        with self.changed:
            if stream.items or stream.finished:
                future.set_result(None)
            else:
                stream.when_changed(lambda: call_in(loop, partial(resolve_future, future)))
        return future

    def next_arrival(self, stream: ObjectStream) -> ObjectEntry:
        """Return an entry that is ready when there is something to take, or the end."""
        with self.changed:
            return stream.next_arrival()

    def close_stream(self, stream: ObjectStream) -> None:
        """Take no more items; the generator is closed at its next one."""
        with self.changed:
            stream.closed = True
            stream.take_all()
            self.changed.notify_all()

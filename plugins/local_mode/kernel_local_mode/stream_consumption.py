"""Take items from streams in local mode, which makes their generators go on."""

from __future__ import annotations

from kernel.runtime.object_entry import ObjectEntry
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.streams import ObjectStream
from kernel_engine.objects.stream_consumer import StreamConsumer
from kernel_engine.one_process.call_threads import CallThreads
from kernel_engine.one_process.generators import Generators
from kernel_engine.one_process.transport import InProcessTransport
from kernel_local_mode.deadlock import DeadlockDetector
from kernel_local_mode.objects import LocalObjects
from kernel_spec.errors import InfeasibleError


class LocalStreams(StreamConsumer):
    """Reads the streams of this process, and runs a generator on when one of its items is missing."""

    def __init__(
        self,
        transport: InProcessTransport,
        objects: LocalObjects,
        streaming: Generators,
        calls: CallThreads,
        deadlock: DeadlockDetector,
    ) -> None:
        # A wait for an item is not a wait for the end of the stream, which may be far off.
        block = lambda waiter, end, deadline: objects.block(waiter, [], deadline)  # noqa: E731
        super().__init__(transport, block, objects.explain)  # type: ignore[arg-type]
        self._streaming = streaming
        self._calls = calls
        self._deadlock = deadlock
        self._lock = transport.lock

    def next_item(self, stream: ObjectStream, timeout: float | None) -> ObjectRef:
        """Do as the base class says; raises InfeasibleError where that would be for ever."""
        if not stream.items:
            self._streaming.wanted(stream.task)
            self._calls.raise_interrupt()
        if timeout is None and not stream.items and not stream.finished and stream.completed is not None:
            with self._lock:
                why = self._deadlock.why_never(stream.completed._entry)
            if why:
                raise InfeasibleError(f"this would wait for ever: {why}")
        ref = super().next_item(stream, timeout)
        if stream.limit:
            self._streaming.wanted(stream.task)
        return ref

    def take_item(self, stream: ObjectStream) -> tuple[ObjectRef | None, bool]:
        """Return the next reference if there is one or the generator makes one, and whether the stream has ended."""
        if not stream.items:
            self._streaming.wanted(stream.task)
        return super().take_item(stream)

    def next_arrival(self, stream: ObjectStream) -> ObjectEntry:
        """Return an entry that is ready when the stream has an item or ends."""
        if not stream.items:
            self._streaming.wanted(stream.task)
        return super().next_arrival(stream)

    def close(self, stream: ObjectStream) -> None:
        """Take no more items, and end the generator."""
        super().close(stream)
        self._streaming.close(stream.task)

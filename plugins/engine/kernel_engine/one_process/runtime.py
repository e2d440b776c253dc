"""What an engine of one process inherits: all that the public API calls, but for tasks and actors.

class MyRuntime(OneProcessRuntime):
    engine = "mine"

    def submit(self, function, args, kwargs):
        call = Call(self, function, function.name, function.max_retries, args, kwargs)
        self.begin(call)
        call.when_ready(lambda: ...)  # have call.run(function.function) called, in whatever thread
        return call.result
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from kernel_engine.objects.stream_consumer import StreamConsumer
from kernel_engine.one_process.objects import OneProcessObjects
from kernel_engine.one_process.open_calls import OpenCalls
from kernel_engine.partial_runtime import PartialRuntime


class OneProcessRuntime(OpenCalls, PartialRuntime):
    """Objects, streams, cancelling and the names of actors. `blocked()` is entered by a thread while it waits."""

    def __init__(
        self, namespace: str | None, blocked: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        super().__init__(namespace)
        self.io.pump.blocked = blocked
        io: Any = self.io
        objects = OneProcessObjects(self.io, self.ownership, self.store, self.tasks, self.serializer)
        self._begin(objects, StreamConsumer(io, objects.block, objects.explain))


class OneProcessSession:
    """A session that has nothing but its runtime. See `kernel_spec.engines.EngineSession`."""

    def __init__(self, runtime: OneProcessRuntime) -> None:
        self.runtime = runtime

    def end(self) -> None:
        """Nothing was started that the runtime has not ended."""

    def forget(self) -> None:
        """A forked child has none of the threads, and nothing to close."""

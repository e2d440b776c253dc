"""The base class of engines of one process: all that the public API calls, but for tasks and actors.

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
    """Offers objects, streams, cancelling and the names of actors. A thread that waits does so inside `blocked()`."""

    def __init__(
        self, namespace: str | None, blocked: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        super().__init__(namespace)
        self.io.pump.blocked = blocked
        io: Any = self.io
        objects = OneProcessObjects(self.io, self.ownership, self.store, self.tasks, self.serializer)
        self._begin(objects, StreamConsumer(io, objects.block, objects.explain))


class OneProcessSession:
    """Is a session that consists of its runtime alone. See `kernel_spec.engines.EngineSession`."""

    def __init__(self, runtime: OneProcessRuntime) -> None:
        self.runtime = runtime

    def end(self) -> None:
        """Do nothing: `runtime.shutdown` has ended all that was started."""

    def forget(self) -> None:
        """Do nothing: a forked child has none of the threads, and nothing to close."""

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

import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from kernel.runtime.worker_info import current_worker
from kernel_engine.one_process.actor_names import ActorNames
from kernel_engine.one_process.open_calls import OpenCalls
from kernel_engine.one_process.streams import OneProcessStreams
from kernel_engine.partial_runtime import PartialRuntime


class OneProcessRuntime(OneProcessStreams, OpenCalls, PartialRuntime):
    """Objects, streams, cancelling and the names of actors. `blocked()` is entered by a thread while it waits."""

    local_mode = True

    def __init__(
        self, namespace: str | None, blocked: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        super().__init__(blocked)
        self._namespace = namespace or self.job.hex()
        self.session_directory = tempfile.mkdtemp(prefix=f"kernel-{self.engine}-")
        self.names = ActorNames()

    @property
    def namespace(self) -> str:
        """The namespace of the actor that asks, else the session's."""
        return current_worker().namespace or self._namespace

    def find_actor(self, name: str, namespace: str | None) -> Mapping[str, Any] | None:
        """See `Runtime.find_actor`."""
        with self.changed:
            return self.names.find(namespace or self.namespace, name)

    def list_named_actors(self, all_namespaces: bool) -> list[dict[str, str]]:
        """See `Runtime.list_named_actors`."""
        with self.changed:
            return self.names.rows(None if all_namespaces else self.namespace)

    def shutdown(self) -> None:
        """Have everything fail that has not ended. Threads that run user code go on until it returns."""
        self.end_calls()
        shutil.rmtree(self.session_directory, ignore_errors=True)


class OneProcessSession:
    """A session that has nothing but its runtime. See `kernel_spec.engines.EngineSession`."""

    def __init__(self, runtime: OneProcessRuntime) -> None:
        self.runtime = runtime

    def end(self) -> None:
        """Nothing was started that the runtime has not ended."""

    def forget(self) -> None:
        """A forked child has none of the threads, and nothing to close."""

"""An actor: an instance, and the thread that makes its calls one after another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from kernel.runtime.definitions import ActorOptions, ClassDefinition
from kernel.runtime.execution_context import ExitActor
from kernel.runtime.worker_info import WorkerInfo, local_worker
from kernel_engine.failures.failures import Failure, failure_of
from kernel_engine.one_process.actor_names import describe_actor
from kernel_engine.one_process.calls import Call
from kernel_spec.errors import ActorDiedError
from kernel_spec.ids import ActorId, ProcessId


class Actor:
    """An actor, from its creation. `failure` is what its calls raise once it is dead; `ended(actor)` hears of that."""

    def __init__(
        self, definition: ClassDefinition, options: ActorOptions, namespace: str, creation: Call,
        ended: Callable[[Actor], None],
    ) -> None:  # fmt: skip
        self.id = ActorId(creation.id)
        self.name, self.namespace = definition.name, namespace
        self.description = describe_actor(self.id, definition, options, ProcessId(creation.id[:8]))
        self.failure: Failure | None = None
        self._class = definition.cls
        self._ended = ended
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._info = WorkerInfo()  # what code that runs here is told of the actor
        self._info.actor, self._info.actor_name, self._info.namespace = self.id, self.name, namespace
        self._info.description = self.description
        if not options.detached:  # the reference goes with the last handle: end after the calls that there are by then
            creation.when_dropped(lambda: self._calls.put(None))
        creation.actor = self
        threading.Thread(target=self._work, args=[[creation]], name=f"actor {self.name}", daemon=True).start()

    def accept(self, call: Call) -> None:
        """Make a call after those that came before."""
        self._calls.put(call)

    def end(self, cause: str, failure: Failure | None = None) -> None:
        """Have this call and all later ones fail; the thread ends when its call does, which nothing can interrupt."""
        if self.failure is None:
            self.failure = failure or self.died(cause)
            self._ended(self)
            self._calls.put(None)

    def died(self, cause: str) -> Failure:
        """Return what calls of an actor raise that has died of `cause`."""
        id = self.id.hex()
        return failure_of(ActorDiedError(f"the actor {self.name} ({id[:12]}) is dead: {cause}", actor_id=id))

    def _work(self, creation: list[Call]) -> None:
        local_worker.set(self._info)
        instance = self._construct(creation.pop())  # no more: the reference in it keeps the actor
        while self.failure is None and (call := self._calls.get()) is not None:
            method = call.method
            call.wait()
            error = call.run(lambda *args, **kwargs: getattr(instance, method)(*args, **kwargs))  # noqa: B023
            if isinstance(error, (ExitActor, SystemExit)):
                self.end("it has called exit_actor()")
            del call  # its results and its arguments
        self.end("all handles to it are gone")

    def _construct(self, creation: Call) -> Any:
        made = []
        creation.wait()
        error = creation.run(lambda *args, **kwargs: made.append(self._class(*args, **kwargs)))
        if error is not None:
            self.end("its constructor raised", creation.describe(error, ends_actor=True))
        elif creation.failure is not None:
            self.end("an argument of its constructor has failed")
        return made[0] if made else None

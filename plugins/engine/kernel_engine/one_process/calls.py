"""Hold one call of a function or method, for an engine that decides when and in which thread it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

from kernel.runtime.definitions import CallOptions, FunctionDefinition
from kernel.runtime.execution_context import ExitActor
from kernel.runtime.object_entry import FAILED
from kernel_engine.failures.failures import Failure, failure_of
from kernel_engine.one_process.core import OneProcessCore
from kernel_engine.one_process.place import PlainPlace
from kernel_engine.tasks.call_runner import CallRunner
from kernel_spec.errors import ActorDiedError
from kernel_spec.ids import ActorId


class CalledActor(Protocol):
    """Names the actor of a call, for errors."""

    id: ActorId
    name: str


class Call:
    """Holds a call that has not ended. `result` is the value that `.remote()` returns."""

    def __init__(
        self, core: OneProcessCore, definition: FunctionDefinition | CallOptions, name: str, retries: int,
        args: tuple[Any, ...], kwargs: dict[str, Any], actor: CalledActor | None = None,
    ) -> None:  # fmt: skip
        self._core = core
        self.actor = actor
        self.name = name
        self.method = definition.name
        of = name.removesuffix(definition.name).rstrip(".")  # The class of the method.
        self.task, self.result = core.tasks.prepare(definition, retries, args, kwargs, of)
        self.id = self.task.id
        frame = sys._getframe(3)  # The user's line: `prepare` takes its caller for the engine.
        self.task.site = frame.f_code, frame.f_lineno
        self._runner: CallRunner = core.make_runner(of)
        self._channel = core.io.channel()
        self._raised: BaseException | None = None
        self.again = False
        """Whether the call is made once more after it has failed."""

    @property
    def failure(self) -> Failure | None:
        """The failure that the results raise; None without one."""
        return next((entry.value for entry in self.task.all_entries() if entry.state == FAILED), None)

    def when_ready(self, start: Callable[[], None]) -> None:
        """Call `start` as soon as all arguments are there, or have failed."""
        with self._core.lock:
            ready = self._core.tasks.arguments.resolve(self.task, lambda task: start())
        if ready:
            start()

    def wait(self) -> None:
        """Block until all arguments are there, or have failed."""
        self._core.objects.wait_for([entry for _, entry in self.task.slots or ()])

    def when_dropped(self, told: Callable[[], object]) -> None:
        """Call `told`, under the lock, once nothing refers to the result any more."""
        with self._core.lock:
            self.task.all_entries()[0].more().may_go = lambda: (told(), True)[1]

    def drop(self) -> None:
        """Let go of the arguments: the call is not made."""
        with self._core.lock:
            held, self.task.holds = self.task.holds, None
            self._core.ownership.release(held or ())

    def run(self, function: Callable[..., Any]) -> BaseException | None:
        """Make the call, again if it fails and may; return what it raised in the end."""
        core, task = self._core, self.task
        core.executing[task.id] = self
        try:
            self.again = True
            while self.again:
                self.again, self._raised = False, None
                core.calls.run(
                    task, lambda: (function, self.name), self._runner, self._channel, PlainPlace(), self._ended,
                    in_thread=True,
                )  # fmt: skip
        finally:
            core.executing.pop(task.id, None)
        return self._raised

    def _ended(self, error: BaseException | None, ends_actor: str) -> None:
        self._raised = error
        if ends_actor and error is not None:
            with self._core.lock:
                self._core.tasks.fail(self.task, *self.describe(error))

    def describe(self, error: BaseException, ends_actor: bool = False) -> Failure:
        """Return an error of the user's code, with its lines, as a failure; with `ends_actor` of all its calls."""
        if self.actor is not None and isinstance(error, (ExitActor, SystemExit)):
            return failure_of(ActorDiedError(f"{self.name}() has ended its actor", actor_id=self.actor.id.hex()))
        return self._runner.describe_failure(self.name, error, ends_actor)

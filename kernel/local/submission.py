"""Tasks in local mode: run where they are submitted, or as soon as what they need is there."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernel.local.placement import make_place
from kernel.local.resources import Request
from kernel.runtime.definitions import FunctionDefinition
from kernel.runtime.task import Task
from kernel_spec.errors import SessionEndedError
from kernel_spec.resources import Allocation

if TYPE_CHECKING:
    from kernel.local.runtime import LocalRuntime


class LocalTasks:
    """Gives tasks what they need and runs them, again if they may be retried."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self._runtime = runtime
        self._functions: dict[bytes, Callable[..., Any]] = {}
        self._again: set[bytes] = set()
        self._runner = runtime.make_runner("")
        self._line = runtime.io.line()

    def accept(self, task: Task) -> None:
        """Take a new task; run it now if its arguments are there."""
        runtime = self._runtime
        definition: FunctionDefinition = task.definition  # type: ignore[assignment]
        environment = definition.shape.environment
        task.extra = {"environment": runtime.environment_for(pickle.loads(environment) if environment else None)}

        def start_later(task: Task) -> None:
            runtime.helpers.submit(lambda: self._start(task))

        with runtime.lock:
            if runtime.io.ended is not None:
                raise SessionEndedError(runtime.io.ended)
            runtime.tasks.register(task)
            ready = runtime.tasks.arguments.resolve(task, start_later)
        if ready:
            self._start(task)

    def retry(self, task: Task) -> None:
        """Note that a task must run again. Under the lock, while it ends."""
        self._again.add(task.id)

    def _start(self, task: Task) -> None:
        resources = self._runtime.resources
        with self._runtime.lock:
            resources.lend_cpu(True)
        try:
            self._run_until_done(task)
        finally:
            with self._runtime.lock:
                resources.lend_cpu(False)

    def _run_until_done(self, task: Task) -> None:
        while True:
            allocation = self._allocate(task)
            if allocation is None:
                return
            self._run(task, allocation)
            if task.id not in self._again:
                return
            self._again.discard(task.id)

    def _allocate(self, task: Task) -> Allocation | None:
        """Return what the task holds while it runs; None when it waits, or needs to run no more."""
        runtime = self._runtime
        definition: FunctionDefinition = task.definition  # type: ignore[assignment]
        with runtime.lock:
            if task.cancelled or runtime.io.ended is not None:
                return None
            failure = runtime.tasks.arguments.failure(task)
            if failure is not None:
                runtime.tasks.fail(task, *failure)
                return None
            refusal = runtime.resources.refusal(f"{task.name}()", definition.shape)
            if refusal is not None:
                runtime.tasks.fail_with(task, refusal)
                return None
            allocation = runtime.resources.acquire(definition.shape)
            if allocation is None:
                runtime.resources.wait(Request(task.name, definition.shape, lambda: self._start(task)))
            return allocation

    def _run(self, task: Task, allocation: Allocation) -> None:
        runtime = self._runtime
        definition: FunctionDefinition = task.definition  # type: ignore[assignment]
        environment = task.extra["environment"] if task.extra else None
        strategy = definition.shape.strategy
        place = make_place(allocation, strategy, runtime.session_namespace, environment, runtime.environments)
        here = True

        def ended(fatal: BaseException | None, why: str) -> None:
            with runtime.lock:
                runtime.resources.release(allocation)
                later = not here and task.id in self._again
                if later:
                    self._again.discard(task.id)
            if later:
                runtime.helpers.submit(lambda: self._start(task))

        runtime.calls.run(task, lambda: self._lookup(definition), self._runner, self._line, place, ended)
        here = False

    def _lookup(self, definition: FunctionDefinition) -> tuple[Callable[..., Any], str]:
        function = self._functions.get(definition.id)
        if function is None:
            function = self._runner.load_definition(definition.blob, self._runtime.process)
            self._functions[definition.id] = function
        return function, definition.name

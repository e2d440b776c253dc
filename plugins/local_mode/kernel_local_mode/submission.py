"""Run tasks in local mode: where they are submitted, or as soon as their arguments and resources are there."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from kernel.runtime.definitions import FunctionDefinition
from kernel_engine.one_process.call_threads import CallThreads
from kernel_engine.one_process.transport import InProcessTransport
from kernel_engine.tasks.call_runner import CallRunner
from kernel_engine.tasks.task import Task
from kernel_engine.tasks.tasks import TaskTable
from kernel_local_mode.environment import LocalEnvironments
from kernel_local_mode.helpers import Helpers
from kernel_local_mode.placement import make_place
from kernel_local_mode.resources import LocalResources, ResourceRequest
from kernel_spec.errors import SessionEndedError
from kernel_spec.resources import Allocation


class LocalTasks:
    """Runs tasks when they have what they need, and again if they may be retried; `namespace` is the session's."""

    def __init__(
        self,
        transport: InProcessTransport,
        tasks: TaskTable,
        calls: CallThreads,
        resources: LocalResources,
        helpers: Helpers,
        environments: LocalEnvironments,
        runner: CallRunner,
        namespace: str,
    ) -> None:
        self._transport = transport
        self._lock = transport.lock
        self._tasks = tasks
        self._calls = calls
        self._resources = resources
        self._helpers = helpers
        self._environments = environments
        self._namespace = namespace
        self._functions: dict[bytes, Callable[..., Any]] = {}
        self._again: set[bytes] = set()
        self._runner = runner
        self._channel = transport.channel()

    def accept(self, task: Task) -> None:
        """Take a new task; run it now if its arguments are there."""
        definition: FunctionDefinition = task.definition  # type: ignore[assignment]
        environment = definition.shape.environment
        task.extra = {"environment": self._environments.for_call(pickle.loads(environment) if environment else None)}

        def start_later(task: Task) -> None:
            self._helpers.submit(lambda: self._start(task))

        with self._lock:
            if self._transport.ended is not None:
                raise SessionEndedError(self._transport.ended)
            self._tasks.register(task)
            ready = self._tasks.arguments.resolve(task, start_later)
        if ready:
            self._start(task)

    def retry(self, task: Task) -> None:
        """Note that a task must run again. Under the lock, while it ends."""
        self._again.add(task.id)

    def _start(self, task: Task) -> None:
        with self._lock:
            self._resources.lend_cpu(True)
        try:
            self._run_until_done(task)
        finally:
            with self._lock:
                self._resources.lend_cpu(False)

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
        definition: FunctionDefinition = task.definition  # type: ignore[assignment]
        with self._lock:
            if task.cancelled or self._transport.ended is not None:
                return None
            failure = self._tasks.arguments.failure(task)
            if failure is not None:
                self._tasks.fail(task, *failure)
                return None
            refusal = self._resources.refusal(f"{task.name}()", definition.shape)
            if refusal is not None:
                self._tasks.fail_with(task, refusal)
                return None
            allocation = self._resources.acquire(definition.shape)
            if allocation is None:
                self._resources.wait(ResourceRequest(task.name, definition.shape, lambda: self._start(task)))
            return allocation

    def _run(self, task: Task, allocation: Allocation) -> None:
        definition: FunctionDefinition = task.definition  # type: ignore[assignment]
        environment = task.extra["environment"] if task.extra else None
        strategy = definition.shape.strategy
        place = make_place(allocation, strategy, self._namespace, environment, self._environments)
        here = True

        def ended(error: BaseException | None, why: str) -> None:
            with self._lock:
                self._resources.release(allocation)
                later = not here and task.id in self._again
                if later:
                    self._again.discard(task.id)
            if later:
                self._helpers.submit(lambda: self._start(task))

        self._calls.run(task, lambda: self._lookup(definition), self._runner, self._channel, place, ended)
        here = False

    def _lookup(self, definition: FunctionDefinition) -> tuple[Callable[..., Any], str]:
        function = self._functions.get(definition.id)
        if function is None:
            function = self._runner.load_definition(definition.blob, self._transport.id)
            self._functions[definition.id] = function
        return function, definition.name

"""Explain in a sentence what a task or actor call of this process waits for."""

from __future__ import annotations

from collections.abc import Mapping

from kernel.runtime.definitions import FunctionDefinition
from kernel.runtime.object_entry import PENDING, STATE_NAMES, ObjectEntry
from kernel_engine.one_process.call_threads import CallThreads
from kernel_engine.tasks.task import Task
from kernel_local_mode.actor import ALIVE, DEAD, LocalActor
from kernel_local_mode.resources import LocalResources, ResourceDemand
from kernel_spec.ids import ObjectId


class Explanations:
    """Explains waits from the state of the other parts. Runs under the lock."""

    def __init__(self, calls: CallThreads, resources: LocalResources, promised: Mapping[ObjectId, str]) -> None:
        self._calls = calls
        self._resources = resources
        self._promised = promised

    def of(self, entry: ObjectEntry) -> str:
        """Say what an object waits for."""
        if entry.state != PENDING:
            return f"object {entry.id.hex()} is ready ({STATE_NAMES[entry.state]})"
        task: Task | None = entry.task
        if task is None:
            group = self._promised.get(entry.id)
            return self._resources.groups.explain(group) if group else f"object {entry.id.hex()} has no task"
        if task.id in self._calls.threads:
            return f"{task.name}() is running in this process"
        waiting = [each for _, each in task.slots or () if each.state == PENDING]
        if waiting:
            names = ", ".join(f"{each.task.name}() ({each.id.hex()[:12]})" for each in waiting[:3] if each.task)
            return f"{task.name}() waits for {len(waiting)} of its arguments: {names}"
        if isinstance(task.place, LocalActor):
            return self._of_call(task, task.place)
        definition: FunctionDefinition = task.definition  # type: ignore[assignment]
        return f"{task.name}() waits for a worker: {self._missing(definition.shape)}"

    def _of_call(self, task: Task, actor: LocalActor) -> str:
        short = actor.id.hex()[:12]
        if task.id in actor.running:
            return f"{task.name}() is running in actor {short}"
        if actor.state == ALIVE:
            return f"{task.name}() waits for its turn at actor {short}, which runs {len(actor.running)} calls"
        missing = self._missing(actor.options) if actor.place is None else "it is in its constructor"
        return f"{task.name}() waits for the actor ({short}), which is {actor.state}: {missing}"

    def of_actor(self, actor: LocalActor | None) -> str:
        """Say what an actor waits for."""
        if actor is None:
            return "no such actor is known (any more)"
        if actor.state == DEAD:
            return f"actor {actor.name} is dead: {actor.cause}"
        if actor.state == ALIVE:
            return f"actor {actor.name} is alive in this process"
        missing = self._missing(actor.options) if actor.place is None else "it is in its constructor"
        return f"actor {actor.name} is {actor.state}: {missing}"

    def _missing(self, wish: ResourceDemand) -> str:
        return self._resources.infeasible(wish) or self._resources.busy(wish)

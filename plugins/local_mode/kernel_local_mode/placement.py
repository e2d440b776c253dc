"""Describe where a call runs, as it sees it: its resources, its execution, its environment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernel.runtime.definitions import group_of
from kernel.runtime.execution_context import Execution, current_execution
from kernel.runtime.worker_info import WorkerInfo, local_worker
from kernel_local_mode.environment import Environment, LocalEnvironments, environment_here
from kernel_local_mode.resources import held
from kernel_spec.dataclass import dataclass
from kernel_spec.resources import Allocation


@dataclass(slots=True)
class LocalPlace:
    """Represents a worker in local mode: a task's for as long as it runs, or an actor's for life."""

    info: WorkerInfo
    allocation: Allocation
    environment: Environment | None
    environments: LocalEnvironments

    def settle(self, execution: Execution) -> None:
        """Make this the place of the coroutine that calls, whose context is its own."""
        local_worker.set(self.info)
        current_execution.set(execution)
        held.set(self.allocation)
        environment_here.set(self.environment)

    @contextmanager
    def occupied(self, execution: Execution) -> Iterator[None]:
        """Run the block here."""
        worker = local_worker.set(self.info)
        running = current_execution.set(execution)
        holds = held.set(self.allocation)
        inside = environment_here.set(self.environment)
        try:
            with self.environments.inside(self.environment):
                yield
        finally:
            environment_here.reset(inside)
            held.reset(holds)
            current_execution.reset(running)
            local_worker.reset(worker)


def make_place(
    allocation: Allocation,
    strategy: Any,
    namespace: str,
    environment: Environment | None,
    environments: LocalEnvironments,
) -> LocalPlace:
    """Return a place that holds `allocation`, which was got with `strategy`."""
    info = WorkerInfo()
    info.namespace = namespace
    info.assign(allocation.amounts, allocation.devices, group_of(strategy))
    return LocalPlace(info, allocation, environment, environments)

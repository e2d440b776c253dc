"""What this distribution offers to the kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kernel_scheduler_priority.scheduler import PriorityScheduler
from kernel_spec.hooks import hookimpl
from kernel_spec.scheduling import Scheduler

CONFORMANCE = {
    "scheduler": {"node_affinity": False, "spreads": False, "reclaims": False, "most_times_slower": 10_000},
}
"""What `kernel plugins check` must not ask of it."""


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Say which contract this was written for."""
    return {"scheduler": 1}


@hookimpl
def kernel_schedulers() -> Mapping[str, Callable[[], Scheduler]]:
    """Offer the scheduler `priority`."""
    return {"priority": PriorityScheduler}

"""What this distribution offers to the kernel, and (CONFORMANCE) what `kernel plugins check` must not ask of it."""

from kernel_scheduler_priority.scheduler import PriorityScheduler
from kernel_spec import hookimpl

CONFORMANCE = {"scheduler": {"reclaims": False, "most_times_slower": 10_000}}


@hookimpl
def kernel_contracts() -> dict[str, int]:
    """Say which contract this was written for."""
    return {"scheduler": 1}


@hookimpl
def kernel_schedulers() -> dict[str, type[PriorityScheduler]]:
    """Offer the scheduler `priority`."""
    return {"priority": PriorityScheduler}

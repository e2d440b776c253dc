"""The hooks of this distribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kernel_scheduler_fifo.scheduler import FifoScheduler
from kernel_spec.hooks import hookimpl
from kernel_spec.scheduling import Scheduler


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Say which contract this was written for."""
    return {"scheduler": 1}


@hookimpl
def kernel_schedulers() -> Mapping[str, Callable[[], Scheduler]]:
    """Offer the scheduler `fifo`."""
    return {"fifo": FifoScheduler}

"""The default scheduler keeps the contract."""

from __future__ import annotations

from kernel_scheduler_fifo import FifoScheduler

from kernel.conformance.scheduler import SchedulerConformance


class TestFifo(SchedulerConformance):
    make_scheduler = staticmethod(FifoScheduler)
    starvation_free = True
    flat_cost = True
    flat_over_nodes = True
    fuzz_seeds = range(40)

"""The fair scheduler keeps the contract."""

from __future__ import annotations

from kernel_scheduler_fair.scheduler import FairScheduler

from kernel.conformance.scheduler import SchedulerConformance


class TestFair(SchedulerConformance):
    make_scheduler = staticmethod(FairScheduler)
    starvation_free = True
    flat_cost = True
    flat_over_nodes = True
    most_times_slower = 800
    fuzz_seeds = range(40)

"""Every scheduler of this project on every scenario, checked; and what `fair` is for, beside `fifo`."""

from __future__ import annotations

import pytest
from kernel_simulation import SCENARIOS, Report, Simulation, scenario

from kernel.plugins import PluginManager

SCHEDULERS = ("fair", "fifo", "local")


def run(scheduler: str, name: str, nodes: int, tasks: int, check: bool = False) -> Report:
    factory = PluginManager.discover().choose("scheduler", scheduler)
    return Simulation(scenario(name, nodes, tasks), factory, seed=5, check=check).run()


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_all_work_is_done_and_no_promise_broken(scheduler: str, name: str) -> None:
    report = run(scheduler, name, nodes=12, tasks=400, check=True)
    assert report.scheduler == scheduler
    assert [(work.name, work.left) for work in report.work if work.left] == []
    assert report.preemptions == 0 or scheduler == "fair"


def waiting(report: Report) -> dict[str, float]:
    """Return the mean seconds that each class of work waited."""
    return {work.name: work.waiting.mean for work in report.work}


def test_a_small_job_beside_a_large_one_waits_much_less_with_fair() -> None:
    fifo, fair = (run(scheduler, "two-jobs", nodes=50, tasks=8000) for scheduler in ("fifo", "fair"))
    assert waiting(fair)["small"] < waiting(fifo)["small"] / 2
    assert fair.makespan < 1.05 * fifo.makespan and waiting(fair)["large"] < 1.05 * waiting(fifo)["large"]


def test_urgent_work_waits_much_less_with_fair() -> None:
    fifo, fair = (run(scheduler, "mixed", nodes=20, tasks=4000) for scheduler in ("fifo", "fair"))
    assert waiting(fair)["urgent"] < waiting(fifo)["urgent"] / 4
    assert fair.preemptions > 0 and fair.makespan < 1.1 * fifo.makespan

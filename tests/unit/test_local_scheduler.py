"""The reference scheduler keeps the contract."""

from __future__ import annotations

from kernel.local.scheduler import LocalScheduler
from kernel.testing.scheduler import SchedulerConformance
from kernel.testing.scheduler_harness import SchedulerHarness


class TestLocal(SchedulerConformance):
    make_scheduler = staticmethod(LocalScheduler)
    most_times_slower = 10_000  # it goes through everybody who waits, at every event


def test_one_holder_is_asked_back_at_each_tick() -> None:
    world = SchedulerHarness(LocalScheduler())
    world.add_node({"CPU": 2})
    held = world.request_many(2, {"CPU": 1}, requester="greedy")
    world.request({"CPU": 2}, requester="modest")
    assert world.tick() == held[:1]
    assert world.tick() == held[1:]
    assert world.tick() == []


def test_an_infeasible_request_hears_what_nodes_have() -> None:
    world = SchedulerHarness(LocalScheduler())
    world.add_node({"CPU": 2})
    reason = world.explain(world.request({"GPU": 1}))
    assert reason.text == "it wants GPU: 1, and no node it may use has that much; nodes have: CPU: 2"

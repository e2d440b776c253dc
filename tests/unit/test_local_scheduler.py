"""The reference scheduler keeps the contract."""

from __future__ import annotations

import pytest

from kernel.local.scheduler import LocalScheduler
from kernel.testing.scheduler import SchedulerConformance
from kernel.testing.scheduler_harness import SchedulerHarness
from kernel_spec.ids import LeaseId
from kernel_spec.scheduling import (
    Event,
    Instruction,
    LeaseBlocked,
    LeaseCancelled,
    LeaseReleased,
    NodeRemoved,
    Reason,
    Reclaim,
    Tick,
)


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


class LendsEverything(LocalScheduler):
    def handle(self, event: Event, now: float) -> list[Instruction]:
        return super().handle(LeaseReleased(event.id) if isinstance(event, LeaseBlocked) else event, now)


class ForgetsToFree(LocalScheduler):
    def handle(self, event: Event, now: float) -> list[Instruction]:
        return [] if isinstance(event, LeaseReleased) else super().handle(event, now)


class GrantsTheCancelled(LocalScheduler):
    def handle(self, event: Event, now: float) -> list[Instruction]:
        return [] if isinstance(event, LeaseCancelled) else super().handle(event, now)


class GrantsTwice(LocalScheduler):
    def handle(self, event: Event, now: float) -> list[Instruction]:
        return 2 * super().handle(event, now)


class LastInFirstOut(LocalScheduler):
    def handle(self, event: Event, now: float) -> list[Instruction]:
        self._waiting = dict(reversed(self._waiting.items()))
        return super().handle(event, now)


class AsksActorsBack(LocalScheduler):
    def handle(self, event: Event, now: float) -> list[Instruction]:
        wishes = [Reclaim(id) for id in self._granted] if isinstance(event, Tick) else []
        return wishes + super().handle(event, now)


class KeepsLostNodes(LocalScheduler):
    def handle(self, event: Event, now: float) -> list[Instruction]:
        return [] if isinstance(event, NodeRemoved) else super().handle(event, now)


class SaysNothing(LocalScheduler):
    def explain(self, id: LeaseId, now: float) -> Reason:
        return Reason("waiting", "")


BROKEN = [
    LendsEverything,
    ForgetsToFree,
    GrantsTheCancelled,
    GrantsTwice,
    LastInFirstOut,
    AsksActorsBack,
    KeepsLostNodes,
    SaysNothing,
]


@pytest.mark.parametrize("broken", BROKEN)
def test_the_suite_catches_a_scheduler_that_breaks_its_promise(broken: type[LocalScheduler]) -> None:
    suite = type("Suite", (SchedulerConformance,), {"make_scheduler": staticmethod(broken)})()
    failed = []
    for name in dir(suite):
        if name.startswith("test_") and "cheap" not in name:
            try:
                getattr(suite, name)()
            except (AssertionError, KeyError):
                failed.append(name)
    assert failed, f"{broken.__name__} passes the conformance suite"

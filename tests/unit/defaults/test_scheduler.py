"""The reference scheduler keeps the contract."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernel.conformance.scheduler import SchedulerConformance
from kernel.conformance.scheduler_harness import SchedulerHarness
from kernel.defaults.scheduler import LocalScheduler
from kernel_spec.ids import LeaseId
from kernel_spec.scheduling import (
    DrainCancelled,
    Event,
    GroupHeld,
    GroupRemoved,
    Instruction,
    LeaseBlocked,
    LeaseCancelled,
    LeaseHeld,
    LeaseReleased,
    LeaseRequested,
    NodeDraining,
    NodeRemoved,
    PlaceGroup,
    Preempt,
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


def test_one_holder_is_asked_back_for_a_group_at_each_tick() -> None:
    world = SchedulerHarness(LocalScheduler())
    world.add_node({"CPU": 2})
    held = world.request_many(2, {"CPU": 1})
    group = world.group([{"CPU": 1}, {"CPU": 1}])
    assert [world.tick(), world.tick(), world.tick()] == [held[:1], held[1:], []]
    world.release(*held)
    assert world.bundles[group]


def test_the_harness_ends_what_is_preempted() -> None:
    class Ruthless(LocalScheduler):
        def handle(self, event: Event, now: float) -> list[Instruction]:
            done = super().handle(event, now)
            able = [id for id, lease in self._ledger.leases.items() if lease.request.preemptible]
            return done + [Preempt(id, "it is a tick") for id in able if isinstance(event, Tick)]

    world = SchedulerHarness(Ruthless())
    world.add_node({"CPU": 2})
    ends, stays = (world.request({"CPU": 1}, preemptible=able) for able in (True, False))
    waiting = world.request({"CPU": 1})
    world.tick()
    assert world.preempted == [ends] and list(world.granted) == [stays, waiting]


def test_an_infeasible_request_hears_what_nodes_have() -> None:
    world = SchedulerHarness(LocalScheduler())
    world.add_node({"CPU": 2})
    reason = world.explain(world.request({"GPU": 1}))
    assert reason.text == (
        "no node ever has GPU: 1: it wants GPU: 1, and there is none. "
        "It waits until a node has that much; add one, or ask for less"
    )


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
        wishes = [Reclaim(id) for id in self._ledger.leases] if isinstance(event, Tick) else []
        return wishes + super().handle(event, now)


class KeepsLostNodes(LocalScheduler):
    def handle(self, event: Event, now: float) -> list[Instruction]:
        return [] if isinstance(event, NodeRemoved) else super().handle(event, now)


class FillsDrainingNodes(LocalScheduler):
    def handle(self, event: Event, now: float) -> list[Instruction]:
        return [] if isinstance(event, NodeDraining) else super().handle(event, now)


class LeavesCancelledDrainsEmpty(LocalScheduler):
    def handle(self, event: Event, now: float) -> list[Instruction]:
        return [] if isinstance(event, DrainCancelled) else super().handle(event, now)


class ForgetsWhatIsHeld(LocalScheduler):
    def handle(self, event: Event, now: float) -> list[Instruction]:
        return [] if isinstance(event, LeaseHeld) else super().handle(event, now)


class AnswersWhatIsHeld(LocalScheduler):
    def handle(self, event: Event, now: float) -> list[Instruction]:
        done = super().handle(event, now)
        return done or (super().handle(Tick(), now) if isinstance(event, GroupHeld) else [])


class PlacesHalfOfAGroup(LocalScheduler):
    def handle(self, event: Event, now: float) -> list[Instruction]:
        done = super().handle(event, now)
        return [replace(step, bundles=step.bundles[:1]) if isinstance(step, PlaceGroup) else step for step in done]


class LeavesTheGroup(LocalScheduler):
    def handle(self, event: Event, now: float) -> list[Instruction]:
        if isinstance(event, LeaseRequested):
            event = LeaseRequested(replace(event.request, group=None))
        return super().handle(event, now)


class IgnoresStrategies(LocalScheduler):
    def handle(self, event: Event, now: float) -> list[Instruction]:
        if isinstance(event, LeaseRequested):
            event = LeaseRequested(replace(event.request, strategy="DEFAULT"))
        return super().handle(event, now)


class ForgetsLostBundles(LocalScheduler):
    def handle(self, event: Event, now: float) -> list[Instruction]:
        done = super().handle(event, now)
        if isinstance(event, NodeRemoved):
            for group in [group.request.id for group in self._ledger.waiting_groups()]:
                super().handle(GroupRemoved(group), now)
        return done


class PreemptsWhatMustNotBe(LocalScheduler):
    def handle(self, event: Event, now: float) -> list[Instruction]:
        done = super().handle(event, now)
        return done + [Preempt(id, "because") for id in self._ledger.leases if isinstance(event, Tick)]


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
    FillsDrainingNodes,
    LeavesCancelledDrainsEmpty,
    ForgetsWhatIsHeld,
    AnswersWhatIsHeld,
    PlacesHalfOfAGroup,
    LeavesTheGroup,
    IgnoresStrategies,
    ForgetsLostBundles,
    PreemptsWhatMustNotBe,
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

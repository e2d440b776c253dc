"""Wrong schedulers: the suite that plugin authors run must fail every one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from kernel_conformance.scheduler import SchedulerConformance

from kernel.defaults.scheduler import LocalScheduler
from kernel.testing.first_failure import first_failure
from kernel_spec.ids import GroupId, LeaseId
from kernel_spec.ledger import Ledger
from kernel_spec.resources import CPU
from kernel_spec.scheduling import (
    PACK,
    SPREAD,
    STRICT_PACK,
    STRICT_SPREAD,
    Event,
    GroupRequested,
    Instruction,
    LeaseRequest,
    LeaseRequested,
    PlaceGroup,
    Preempt,
    Reason,
    Reclaim,
    SchedulerSnapshot,
)
from plugins.conformance.tests import wrong_schedulers
from plugins.conformance.tests.wrong_schedulers import Changed

HISTORIES = range(4)
"""Few random histories: what is wrong here, a test that says what is right should see."""


# -- placement groups ----------------------------------------------------------------------------------------------


def placing(asked: str, done: str) -> type[LocalScheduler]:
    """Return a scheduler that takes one strategy of groups for another."""

    class Places(Changed):
        def heard(self, event: Event) -> Event | None:
            if isinstance(event, GroupRequested) and event.request.strategy == asked:
                return GroupRequested(replace(event.request, strategy=done))
            return event

    Places.__name__ = f"Places_{asked}_as_{done}"
    return Places


PLACING = [
    placing(PACK, SPREAD), placing(PACK, STRICT_PACK), placing(SPREAD, PACK), placing(SPREAD, STRICT_SPREAD),
    placing(STRICT_PACK, PACK), placing(STRICT_SPREAD, SPREAD),
]  # fmt: skip


class PlacesAPart(Changed):
    def said(self, instruction: Instruction) -> Sequence[Instruction]:
        if isinstance(instruction, PlaceGroup):
            return [replace(instruction, bundles=instruction.bundles[:1])]
        return [instruction]


class PlacesOneByOne(Changed):
    def said(self, instruction: Instruction) -> Sequence[Instruction]:
        if isinstance(instruction, PlaceGroup):
            return [replace(instruction, bundles=(bundle,)) for bundle in instruction.bundles]
        return [instruction]


class PlacesAnywhere(Changed):
    """Reads no conditions on the labels of bundles."""

    def heard(self, event: Event) -> Event | None:
        return GroupRequested(replace(event.request, labels=())) if isinstance(event, GroupRequested) else event


class LeavesLostBundles(LocalScheduler):
    """Places a group once."""

    def _place_groups(self) -> list[Instruction]:
        whole = [group for group in self._ledger.waiting_groups() if not group.bundles]
        ledger, self._ledger = self._ledger, _Only(self._ledger, whole)  # type: ignore[assignment]
        try:
            return super()._place_groups()
        finally:
            self._ledger = ledger


class _Only:
    """A ledger in which only some groups wait."""

    def __init__(self, ledger: Ledger, waiting: Iterable[Any]) -> None:
        self._ledger, self._waiting = ledger, waiting

    def waiting_groups(self) -> Iterable[Any]:
        return iter(self._waiting)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)


# -- asking back ---------------------------------------------------------------------------------------------------


class AsksAgain(LocalScheduler):
    """Forgets whom it has asked."""

    def _reclaim(self) -> list[Instruction]:
        self._asked = set()
        return super()._reclaim()


class AsksNobody(LocalScheduler):
    def _reclaim(self) -> list[Instruction]:
        return []


class AsksForNobody(LocalScheduler):
    """Wants leases back whom nobody waits for."""

    def _reclaim(self) -> list[Instruction]:
        if self._someone_waits():
            return super()._reclaim()
        unasked = [
            id for id, lease in self._ledger.leases.items() if not lease.request.for_actor and id not in self._asked
        ]
        self._asked |= set(unasked[:1])
        return [Reclaim(id) for id in unasked[:1]]


class AsksActors(Changed):
    """Takes an actor's lease for any other."""

    def heard(self, event: Event) -> Event | None:
        if isinstance(event, LeaseRequested):
            return LeaseRequested(replace(event.request, for_actor=False))
        return event


class AsksForNothing(LocalScheduler):
    """Wants back whatever anybody holds, also what would help nobody."""

    def _holder(self, place: Any, missing: Iterable[str], wants: LeaseRequest | None) -> LeaseId | None:
        for id, lease in place.leases.items():
            if not lease.request.for_actor and id not in self._asked:
                return id
        return None


class Preempts(LocalScheduler):
    """Ends what can't be run again."""

    def _reclaim(self) -> list[Instruction]:
        return [Preempt(each.id, "in the way") for each in super()._reclaim() if isinstance(each, Reclaim)]


# -- questions -----------------------------------------------------------------------------------------------------


class AlwaysBusy(LocalScheduler):
    def explain(self, id: LeaseId | GroupId, now: float) -> Reason:
        return Reason("busy", "no CPU, zone, labels, GPU, STRICT_PACK, STRICT_SPREAD: holder_of_all and gang have all")


class SaysNoMore(LocalScheduler):
    """Explains by a word of its own, and no sentence."""

    def explain(self, id: LeaseId | GroupId, now: float) -> Reason:
        return replace(super().explain(id, now), text="it waits")


class KnowsEverybody(LocalScheduler):
    """Says of those that it doesn't know that they are busy."""

    def explain(self, id: LeaseId | GroupId, now: float) -> Reason:
        reason = super().explain(id, now)
        return replace(reason, code="busy") if reason.code == "unknown" else reason


class ShowsItself(LocalScheduler):
    """Its snapshot is what it goes on to change."""

    def snapshot(self) -> SchedulerSnapshot:
        seen = super().snapshot()
        granted = self.__dict__.setdefault("granted", {})
        granted.clear()
        granted.update(seen.granted)
        return replace(seen, granted=granted)


class ShowsNobodyWaiting(LocalScheduler):
    def snapshot(self) -> SchedulerSnapshot:
        return replace(super().snapshot(), waiting=[])


class ShowsLentAsTaken(LocalScheduler):
    def snapshot(self) -> SchedulerSnapshot:
        seen = super().snapshot()
        available = {node: dict(free) for node, free in seen.available.items()}
        for lease in self._ledger.leases.values():
            if lease.blocked and lease.request.group is None:
                available[lease.grant.node][CPU] = available[lease.grant.node].get(CPU, 0) - lease.lent
        return replace(seen, available=available)


class ShowsOldTotals(LocalScheduler):
    """Its snapshot has what the nodes had when they came."""

    def snapshot(self) -> SchedulerSnapshot:
        seen = super().snapshot()
        first = self.__dict__.setdefault("first", {})
        return replace(seen, total={node: first.setdefault(node, total) for node, total in seen.total.items()})


class HasNoName(LocalScheduler):
    name = ""


MUTANTS = [
    *wrong_schedulers.MUTANTS,
    *PLACING, PlacesAPart, PlacesOneByOne, PlacesAnywhere, LeavesLostBundles,
    AsksAgain, AsksNobody, AsksForNobody, AsksActors, AsksForNothing, Preempts,
    AlwaysBusy, SaysNoMore, KnowsEverybody, ShowsItself, ShowsNobodyWaiting, ShowsLentAsTaken, ShowsOldTotals,
    HasNoName,
]  # fmt: skip


def failed(make: type[LocalScheduler]) -> str | None:
    """Return the name of the first test that a scheduler fails."""
    flags = {"fuzz_seeds": HISTORIES, "most_times_slower": 100_000}
    return first_failure(type("Suite", (SchedulerConformance,), {"make_scheduler": staticmethod(make), **flags}))


@pytest.mark.parametrize("make", MUTANTS, ids=[mutant.__name__ for mutant in MUTANTS])
def test_a_wrong_scheduler_fails_its_suite(make: type[LocalScheduler]) -> None:
    assert failed(make) is not None


def test_the_scheduler_that_they_were_made_from_passes() -> None:
    assert failed(LocalScheduler) is None

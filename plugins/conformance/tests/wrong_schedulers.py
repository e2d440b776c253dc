"""Schedulers that take in, or answer, something else than they should."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from kernel.defaults.scheduler import LocalScheduler
from kernel_spec.ids import LeaseId, NodeId
from kernel_spec.scheduling import (
    DrainCancelled,
    Event,
    Grant,
    GroupHeld,
    GroupRemoved,
    GroupRequested,
    Instruction,
    LeaseBlocked,
    LeaseCancelled,
    LeaseHeld,
    LeaseReleased,
    LeaseRequest,
    LeaseRequested,
    LeaseUnblocked,
    NodeAdded,
    NodeDraining,
    NodeRemoved,
    ResourceChanged,
    SchedulerSnapshot,
    Tick,
)


class Changed(LocalScheduler):
    """Takes in `heard(event)`, and answers with what `said(instruction)` makes of each instruction."""

    def handle(self, event: Event, now: float) -> list[Instruction]:
        heard = self.heard(event)
        if heard is None:
            return []
        return [each for told in super().handle(heard, now) for each in self.said(told)]

    def heard(self, event: Event) -> Event | None:
        """Return what to take in instead of an event."""
        return event

    def said(self, instruction: Instruction) -> Sequence[Instruction]:
        """Return what to answer instead of an instruction."""
        return [instruction]


# -- events that are not taken in ----------------------------------------------------------------------------------


def deaf_to(kind: type) -> type[LocalScheduler]:
    """Return a scheduler that never hears of events of one kind."""

    class Deaf(Changed):
        def heard(self, event: Event) -> Event | None:
            return None if isinstance(event, kind) else event

    Deaf.__name__ = f"DeafTo{kind.__name__}"
    return Deaf


DEAF = [
    deaf_to(kind)
    for kind in (
        NodeAdded, NodeRemoved, NodeDraining, DrainCancelled, ResourceChanged, LeaseRequested, LeaseCancelled,
        LeaseReleased, LeaseBlocked, LeaseUnblocked, LeaseHeld, GroupRequested, GroupRemoved, GroupHeld, Tick,
    )
]  # fmt: skip


class WaitsForTheTick(LocalScheduler):
    """Grants when time passes, and at no other event."""

    def handle(self, event: Event, now: float) -> list[Instruction]:
        self.passing = isinstance(event, Tick)
        return super().handle(event, now)

    def _grant_what_fits(self) -> list[Instruction]:
        return super()._grant_what_fits() if self.passing else []


class KeepsTheFirstTotals(Changed):
    """Learns labels of a node that it knows, and no totals."""

    def heard(self, event: Event) -> Event | None:
        if isinstance(event, NodeAdded):
            totals = self.__dict__.setdefault("totals", {})
            return replace(event, total=totals.setdefault(event.node, event.total))
        return event


class KeepsTheFirstLabels(Changed):
    def heard(self, event: Event) -> Event | None:
        if isinstance(event, NodeAdded):
            labels = self.__dict__.setdefault("labels", {})
            return replace(event, labels=labels.setdefault(event.node, event.labels))
        return event


class KnowsGpusAlone(Changed):
    """Counts other devices as it counts memory."""

    def heard(self, event: Event) -> Event | None:
        return replace(event, device_resources=("GPU",)) if isinstance(event, NodeAdded) else event


class SetsDevicesByHand(Changed):
    def heard(self, event: Event) -> Event | None:
        if isinstance(event, ResourceChanged) and event.name == "GPU":
            node = self._ledger.nodes.get(event.node)
            if node is None:
                return None
            total = {name: units / 10_000 for name, units in node.pool.total.items()}
            return NodeAdded(event.node, {**total, "GPU": event.quantity}, node.labels)
        return event


class TakesBlockedForOver(Changed):
    """Lends all that a blocked lease holds."""

    def heard(self, event: Event) -> Event | None:
        return LeaseReleased(event.id) if isinstance(event, LeaseBlocked) else event


class FailsForStrangers(Changed):
    """Raises for leases that it does not know."""

    def heard(self, event: Event) -> Event | None:
        if isinstance(event, LeaseReleased | LeaseBlocked | LeaseUnblocked):
            self._ledger.leases[event.id]
        return event


class FailsForStrangeGroups(Changed):
    def heard(self, event: Event) -> Event | None:
        if isinstance(event, GroupRemoved):
            self._ledger.groups[event.id]
        return event


class ForgetsHeldBlocked(Changed):
    """Takes a lease that it held before for one whose worker runs."""

    def heard(self, event: Event) -> Event | None:
        return replace(event, blocked=False) if isinstance(event, LeaseHeld) else event


class ForgetsLeasesInRemovedGroups(Changed):
    """Frees the bundles of a group, and goes on to hold the leases that were left inside."""

    def __init__(self) -> None:
        super().__init__()
        self.left: dict[LeaseId, Grant] = {}

    def heard(self, event: Event) -> Event | None:
        if isinstance(event, GroupRemoved):
            inside = [lease for lease in self._ledger.leases.values() if lease.request.group == event.id]
            self.left |= {lease.request.id: lease.grant for lease in inside}
        elif isinstance(event, LeaseReleased):
            self.left.pop(event.id, None)
        return event

    def snapshot(self) -> SchedulerSnapshot:
        seen = super().snapshot()
        return replace(seen, granted={**seen.granted, **self.left})


# -- grants --------------------------------------------------------------------------------------------------------


class GrantsTwice(Changed):
    def said(self, instruction: Instruction) -> Sequence[Instruction]:
        return [instruction] * (2 if isinstance(instruction, Grant) else 1)


class SaysNothing(Changed):
    """Takes leases for granted of which the head never hears."""

    def said(self, instruction: Instruction) -> Sequence[Instruction]:
        return [] if isinstance(instruction, Grant) else [instruction]


class NamesBundlesAlways(Changed):
    def said(self, instruction: Instruction) -> Sequence[Instruction]:
        return [replace(instruction, bundle=0) if isinstance(instruction, Grant) else instruction]


class NamesNoBundle(Changed):
    def said(self, instruction: Instruction) -> Sequence[Instruction]:
        return [replace(instruction, bundle=-1) if isinstance(instruction, Grant) else instruction]


class ServesTheLatestFirst(LocalScheduler):
    def _grant_what_fits(self) -> list[Instruction]:
        self._waiting = dict(reversed(self._waiting.items()))
        granted = super()._grant_what_fits()
        self._waiting = dict(reversed(self._waiting.items()))
        return granted


class StopsAtTheFirst(LocalScheduler):
    """A request that does not fit stops all others."""

    def _grant_what_fits(self) -> list[Instruction]:
        waiting, grants = dict(self._waiting), []
        for id, request in waiting.items():
            self._waiting = {id: request}
            grants += super()._grant_what_fits()
            if self._waiting:
                break
        granted = {grant.id for grant in grants if isinstance(grant, Grant)}
        self._waiting = {id: request for id, request in waiting.items() if id not in granted}
        return grants


class ThrowsDice(LocalScheduler):
    """Decides by chance who comes first."""

    def _grant_what_fits(self) -> list[Instruction]:
        ids = list(self._waiting)
        random.Random().shuffle(ids)
        self._waiting = {id: self._waiting[id] for id in ids}
        return super()._grant_what_fits()


class Rereads(Changed):
    """Takes in something else of each request."""

    def change(self, request: LeaseRequest) -> LeaseRequest:
        raise NotImplementedError

    def heard(self, event: Event) -> Event | None:
        return LeaseRequested(self.change(event.request)) if isinstance(event, LeaseRequested) else event


class KnowsNoStrategy(Rereads):
    def change(self, request: LeaseRequest) -> LeaseRequest:
        return replace(request, strategy="DEFAULT")


class TakesSoftForHard(Rereads):
    def change(self, request: LeaseRequest) -> LeaseRequest:
        if isinstance(request.strategy, dict) and "soft" in request.strategy:
            strategy = {**request.strategy, "hard": request.strategy["soft"], "soft": False}
            return replace(request, strategy=strategy)
        return request


class KnowsNoOrigin(Rereads):
    def change(self, request: LeaseRequest) -> LeaseRequest:
        return replace(request, origin=NodeId(b""))


class KnowsNoLocality(Rereads):
    def change(self, request: LeaseRequest) -> LeaseRequest:
        return replace(request, locality={})


class KnowsNoBundle(Rereads):
    def change(self, request: LeaseRequest) -> LeaseRequest:
        return replace(request, bundle=-1)


class KnowsNoGroup(Rereads):
    def change(self, request: LeaseRequest) -> LeaseRequest:
        return replace(request, group=None, bundle=-1)


class CountsWhole(Rereads):
    """Takes a share of something for all of it."""

    def change(self, request: LeaseRequest) -> LeaseRequest:
        return replace(request, wanted={name: max(units, 10_000) for name, units in request.wanted.items() if units})


MUTANTS = [
    *DEAF, WaitsForTheTick, KeepsTheFirstTotals, KeepsTheFirstLabels, KnowsGpusAlone, SetsDevicesByHand,
    TakesBlockedForOver, FailsForStrangers, FailsForStrangeGroups, ForgetsHeldBlocked, ForgetsLeasesInRemovedGroups,
    GrantsTwice, SaysNothing, NamesBundlesAlways, NamesNoBundle, ServesTheLatestFirst, StopsAtTheFirst, ThrowsDice,
    KnowsNoStrategy, TakesSoftForHard, KnowsNoOrigin, KnowsNoLocality, KnowsNoBundle, KnowsNoGroup, CountsWhole,
]  # fmt: skip

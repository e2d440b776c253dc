"""The scheduler in its simplest correct form: one list, first fit."""

from __future__ import annotations

from collections.abc import Iterable

from kernel_spec.choosing import nodes_for_group, place_group, places_for
from kernel_spec.holdings import Place
from kernel_spec.ids import GroupId, LeaseId
from kernel_spec.ledger import Ledger
from kernel_spec.reasons import explain
from kernel_spec.scheduling import (
    Event,
    GroupHeld,
    Instruction,
    LeaseCancelled,
    LeaseHeld,
    LeaseRequest,
    LeaseRequested,
    PlaceGroup,
    Reason,
    Reclaim,
    SchedulerSnapshot,
    Tick,
)


class LocalScheduler:
    """Goes through all waiting requests in their order of arrival, and gives each the best place where it fits.

    A request that fits nowhere is skipped, so a large one can wait long among many small ones. Placement groups come
    before leases. While requests wait, each tick reclaims one lease with resources that the first request lacks.
    """

    name = "local"

    def __init__(self) -> None:
        self._ledger = Ledger()
        self._waiting: dict[LeaseId, LeaseRequest] = {}
        self._asked: set[LeaseId] = set()

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """Take one event in and return what to do, in order."""
        match event:
            case LeaseRequested(request):
                if request.id not in self._ledger.leases:
                    self._waiting.setdefault(request.id, request)
            case LeaseCancelled(id):
                self._waiting.pop(id, None)
            case Tick():
                return [*self._place_groups(), *self._grant_what_fits(), *self._reclaim()]
            case GroupHeld() | LeaseHeld():
                self._ledger.apply(event)
                return []
            case _:
                self._ledger.apply(event)
        return [*self._place_groups(), *self._grant_what_fits()]

    def explain(self, id: LeaseId | GroupId, now: float) -> Reason:
        """Say why the request `id` waits."""
        return explain(self._ledger, id, self._waiting.get(LeaseId(id)))

    def snapshot(self) -> SchedulerSnapshot:
        """Return a copy of what is held."""
        return self._ledger.snapshot(self._waiting.values())

    def validate(self) -> None:
        """Raise AssertionError when what is free and what is held do not add up."""
        self._ledger.validate()
        assert self._waiting.keys().isdisjoint(self._ledger.leases), "a request both waits and is granted"

    # -- what comes of an event ------------------------------------------------------------------------------------

    def _place_groups(self) -> list[Instruction]:
        tried = [place_group(self._ledger, group) for group in self._ledger.waiting_groups()]
        return [placed for placed in tried if isinstance(placed, PlaceGroup)]

    def _grant_what_fits(self) -> list[Instruction]:
        grants: list[Instruction] = []
        refused: list[object] = []
        for request in list(self._waiting.values()):
            shape = request.wanted, request.strategy, request.group, request.bundle
            if shape in refused:
                continue
            for place in places_for(self._ledger, request):
                allocation = place.pool.acquire(request.wanted)
                if allocation is not None:
                    del self._waiting[request.id]
                    grants.append(self._ledger.grant(request, place, allocation))
                    break
            else:
                refused.append(shape)
        return grants

    # -- asking back -----------------------------------------------------------------------------------------------

    def _reclaim(self) -> list[Instruction]:
        self._asked &= self._ledger.leases.keys() if self._someone_waits() else set()
        holder = self._holder_for_groups() or self._holder_for_leases()
        if holder is None:
            return []
        self._asked.add(holder)
        return [Reclaim(holder)]

    def _someone_waits(self) -> bool:
        return bool(self._waiting) or any(True for _ in self._ledger.waiting_groups())

    def _holder_for_leases(self) -> LeaseId | None:
        for request in self._waiting.values():
            for place in places_for(self._ledger, request):
                if place.pool.fits_ever(request.wanted):
                    holder = self._holder(place, place.pool.missing(request.wanted), request)
                    if holder is not None:
                        return holder
        return None

    def _holder_for_groups(self) -> LeaseId | None:
        for group in self._ledger.waiting_groups():
            for node in nodes_for_group(self._ledger, group.request):
                for wanted in group.waiting().values():
                    if node.pool.fits_ever(wanted):
                        holder = self._holder(node, node.pool.missing(wanted), None)
                        if holder is not None:
                            return holder
        return None

    def _holder(self, place: Place, missing: Iterable[str], wants: LeaseRequest | None) -> LeaseId | None:
        """Return the oldest lease in `place` to ask for some of `missing`: no actor's, and not of the same kind."""
        for id, lease in place.leases.items():
            if lease.request.for_actor or id in self._asked or (wants is not None and _alike(lease.request, wants)):
                continue
            if any(lease.holds(name) for name in missing):
                return id
        return None


def _alike(held: LeaseRequest, wants: LeaseRequest) -> bool:
    """Return whether both are of the same kind, so that reclaiming one for the other would gain nothing."""
    same = (held.requester, held.wanted, held.hints) == (wants.requester, wants.wanted, wants.hints)
    return same and not wants.for_actor

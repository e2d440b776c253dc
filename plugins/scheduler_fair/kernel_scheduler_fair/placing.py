"""Finding a place for the front of a queue: among what was freed, or anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernel_scheduler_fair.fair_ledger import FairLedger
from kernel_scheduler_fair.plans import Plans
from kernel_scheduler_fair.queues import AccountQueue, AccountQueues
from kernel_spec.choosing import allows, rank, right_nodes, waste
from kernel_spec.finding import choices_for_group, places_with_room
from kernel_spec.holdings import BundlePlace, NodePlace, Place
from kernel_spec.packing import Misfit, pack
from kernel_spec.scheduling import Grant, LeaseRequest, PlaceGroup


class Placing:
    """Grants and places what fits. Nodes that are kept for others are left alone."""

    def __init__(self, ledger: FairLedger, queues: AccountQueues, plans: Plans) -> None:
        self._ledger = ledger
        self._queues = queues
        self._plans = plans

    def serve(self, queue: AccountQueue, freed: Sequence[Place] | None, now: float) -> Grant | PlaceGroup | None:
        """Give the front of a queue what it wants, in one of the `freed` places (None: anywhere), and let it leave."""
        queue.capped = not queue.profile.account.allows(queue.costs)
        if freed is None:
            queue.untried = False
        if queue.capped:
            return None
        return self._place_group(queue, now) if queue.group is not None else self._grant(queue, freed, now)

    # -- leases ----------------------------------------------------------------------------------------------------

    def _grant(self, queue: AccountQueue, freed: Sequence[Place] | None, now: float) -> Grant | None:
        request = queue.front.request
        assert isinstance(request, LeaseRequest)
        assert queue.profile.placement is not None
        places: Iterable[Place]
        if freed is None:
            places = places_with_room(self._ledger, request, queue.profile.placement)
        else:
            places = self._among(queue, request, freed)
        for place in places:
            if isinstance(place, NodePlace) and self._plans.keeps_out(queue, place.node, now):
                continue
            allocation = place.pool.acquire(queue.wanted)
            if allocation is not None:
                self._queues.leave(request.id)
                return self._ledger.grant_on(queue.profile, request, place, allocation)
        return None

    def _among(self, queue: AccountQueue, request: LeaseRequest, freed: Sequence[Place]) -> Sequence[Place]:
        """Return those of the freed places where a request may go, best first."""
        if request.group is not None:
            bundles = [place for place in freed if isinstance(place, BundlePlace)]
            mine = [bundle for bundle in bundles if _is_in(request, bundle)]
            mine.sort(key=lambda bundle: waste(bundle, queue.wanted))
            return mine
        placement = queue.profile.placement
        assert placement is not None
        nodes = [node for node in freed if isinstance(node, NodePlace)]
        allowed = [node for node in nodes if allows(self._ledger, placement, queue.wanted, node)]
        if len(allowed) > 1:
            allowed.sort(key=lambda node: rank(request, placement, node))
        return allowed

    # -- groups ----------------------------------------------------------------------------------------------------

    def _place_group(self, queue: AccountQueue, now: float) -> PlaceGroup | None:
        group = queue.group
        assert group is not None
        free = self._ledger.free.sums()
        if any(units > free.get(name, 0) for name, units in queue.wanted.items()):
            return None
        beside = [place.node for place in group.bundles.values()]
        for pools in choices_for_group(
            self._ledger, group, lambda node: not self._plans.keeps_out(queue, node.node, now)
        ):
            packed = pack(group.waiting(), group.request.strategy, pools, beside, right_nodes(self._ledger, group))
            if not isinstance(packed, Misfit):
                self._queues.leave(group.request.id)
                step = self._ledger.place_group(group, packed)
                self._ledger.charge_group(group)
                return step
        return None


def may_fit(queue: AccountQueue, place: Place) -> bool:
    """Return whether something that a queue waits for seems to fit in a place."""
    if queue.in_group != (place.group if isinstance(place, BundlePlace) else None):
        return False
    free = place.pool.available
    for wanted in queue.pieces:
        for name, units in wanted.items():
            if units and units > free.get(name, 0):
                break
        else:
            return True
    return False


def _is_in(request: LeaseRequest, place: BundlePlace) -> bool:
    return place.group == request.group and request.bundle in (-1, place.bundle.index)

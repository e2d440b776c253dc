"""Finding a place for the front of a line: among what was freed, or anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernel_scheduler_fair.books import Books
from kernel_scheduler_fair.lines import Line, Lines
from kernel_scheduler_fair.plans import Plans
from kernel_spec.choosing import allows, rank, right_nodes, waste
from kernel_spec.finding import choices_for_group, places_with_room
from kernel_spec.holdings import BundlePlace, NodePlace, Place
from kernel_spec.packing import Misfit, pack
from kernel_spec.scheduling import Grant, LeaseRequest, PlaceGroup


class Placing:
    """Grants and places what fits. Nodes that are kept for others are left alone."""

    def __init__(self, books: Books, lines: Lines, plans: Plans) -> None:
        self._books = books
        self._lines = lines
        self._plans = plans

    def serve(self, line: Line, freed: Sequence[Place] | None, now: float) -> Grant | PlaceGroup | None:
        """Give the front of a line what it wants, in one of the `freed` places (None: anywhere), and let it leave."""
        line.capped = not line.terms.account.allows(line.costs)
        if freed is None:
            line.untried = False
        if line.capped:
            return None
        return self._place_group(line, now) if line.group is not None else self._grant(line, freed, now)

    # -- leases ----------------------------------------------------------------------------------------------------

    def _grant(self, line: Line, freed: Sequence[Place] | None, now: float) -> Grant | None:
        request = line.front.request
        assert isinstance(request, LeaseRequest)
        assert line.terms.placement is not None
        places: Iterable[Place]
        if freed is None:
            places = places_with_room(self._books, request, line.terms.placement)
        else:
            places = self._among(line, request, freed)
        for place in places:
            if isinstance(place, NodePlace) and self._plans.keeps_out(line, place.node, now):
                continue
            allocation = place.pool.acquire(line.wanted)
            if allocation is not None:
                self._lines.leave(request.id)
                return self._books.grant_on(line.terms, request, place, allocation)
        return None

    def _among(self, line: Line, request: LeaseRequest, freed: Sequence[Place]) -> Sequence[Place]:
        """Return those of the freed places where a request may go, best first."""
        if request.group is not None:
            bundles = [place for place in freed if isinstance(place, BundlePlace)]
            mine = [bundle for bundle in bundles if _is_in(request, bundle)]
            mine.sort(key=lambda bundle: waste(bundle, line.wanted))
            return mine
        placement = line.terms.placement
        assert placement is not None
        nodes = [node for node in freed if isinstance(node, NodePlace)]
        allowed = [node for node in nodes if allows(self._books, placement, line.wanted, node)]
        if len(allowed) > 1:
            allowed.sort(key=lambda node: rank(request, placement, node))
        return allowed

    # -- groups ----------------------------------------------------------------------------------------------------

    def _place_group(self, line: Line, now: float) -> PlaceGroup | None:
        group = line.group
        assert group is not None
        free = self._books.free.sums()
        if any(units > free.get(name, 0) for name, units in line.wanted.items()):
            return None
        beside = [place.node for place in group.bundles.values()]
        for pools in choices_for_group(
            self._books, group, lambda node: not self._plans.keeps_out(line, node.node, now)
        ):
            packed = pack(group.waiting(), group.request.strategy, pools, beside, right_nodes(self._books, group))
            if not isinstance(packed, Misfit):
                self._lines.leave(group.request.id)
                step = self._books.place_group(group, packed)
                self._books.charge_group(group)
                return step
        return None


def may_fit(line: Line, place: Place) -> bool:
    """Return whether something that a line waits for seems to fit in a place."""
    if line.in_group != (place.group if isinstance(place, BundlePlace) else None):
        return False
    free = place.pool.available
    for wanted in line.pieces:
        for name, units in wanted.items():
            if units and units > free.get(name, 0):
                break
        else:
            return True
    return False


def _is_in(request: LeaseRequest, place: BundlePlace) -> bool:
    return place.group == request.group and request.bundle in (-1, place.bundle.index)

"""Whom to ask for a lease back, so that those who wait get a turn.

A holder keeps a lease while it has tasks for it, which may be hours. So when a request has waited a moment, enough
holders of what it lacks are asked to end, the one with the most leases first. A holder is asked only while it has
more leases than the one who waits: two that want the same end up with about half each and stay there. Actors and
placement groups come first, since what they get they keep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from kernel_scheduler_fifo.finding import Finder
from kernel_scheduler_fifo.holders import Holders, Kind, kind_of
from kernel_scheduler_fifo.queues import ShapeQueue, ShapeQueues
from kernel_scheduler_fifo.reservations import Reservations
from kernel_spec.choosing import affine_node
from kernel_spec.holdings import BundlePlace, Lease, Place
from kernel_spec.ledger import Ledger
from kernel_spec.resources import Amounts, ResourcePool
from kernel_spec.scheduling import LeaseRequest

PATIENCE_SECONDS = 0.1
"""Seconds that a request waits before holders are asked for leases: most leases end on their own sooner."""
LOOK_AHEAD = 64
"""How many requests of each queue are considered at a time."""
PLACES_COMPARED = 16
"""Among how many places at most the one is chosen where the fewest have to be asked."""
MOST_CHOICES = 256
"""How many places are looked at in one go, for all who wait: what is not done now is done a tick later."""
MOST_HOLDERS = 2000
"""How many leases are walked through in one go to find those places."""


def choose_leases_to_reclaim(
    ledger: Ledger, queues: ShapeQueues, finder: Finder, reservations: Reservations, holders: Holders, now: float
) -> list[Lease]:
    """Return the leases to ask back now, none of which was asked in this episode before."""
    patient = [queue for queue in queues if now - queue.front.since >= PATIENCE_SECONDS]
    if not patient:
        return []
    plan = _Plan(ledger, finder, reservations, holders)
    for queue in sorted(patient, key=lambda queue: queue.front.number):
        if queue.of_groups:
            plan.serve_group(queue)
        else:
            plan.serve(queue, now)
    return plan.asked


class _Plan:
    """The resources that would be free once all holders asked have given back, and how many leases each would keep."""

    def __init__(self, ledger: Ledger, finder: Finder, reservations: Reservations, holders: Holders) -> None:
        self.asked: list[Lease] = []
        self._ledger = ledger
        self._finder = finder
        self._reservations = reservations
        self._holders = holders
        self._served: Counter[Kind] = Counter()
        self._pools: dict[Place, ResourcePool] = {}
        self._choices_left = MOST_CHOICES
        self._holders_left = MOST_HOLDERS
        for lease in holders.asked.values():
            self._pool(lease.place)

    def serve(self, queue: ShapeQueue, now: float) -> None:
        """Plan for the requests of one queue of leases, in its order.

        What is freed goes to the front of the queue, whoever it was asked back for. So when a request deserves
        something and those before it do not, they are served on its behalf.
        """
        before = 0
        hopeless: set[Kind] = set()
        free = [place for place in self._pools if self._may_use(queue, place)]
        for entry in islice(queue.waiting.values(), LOOK_AHEAD):
            if now - entry.since < PATIENCE_SECONDS:
                return
            request = entry.request
            assert isinstance(request, LeaseRequest)
            kind = kind_of(request)
            if not before and self._take(queue, free):
                self._served[kind] += 1
                continue
            before += 1
            if kind in hopeless:
                continue
            while before and (self._take(queue, free) or self._free_one(queue, request, kind, free)):
                before -= 1
            if before:
                hopeless.add(kind)
            else:
                self._served[kind] += 1

    def serve_group(self, queue: ShapeQueue) -> None:
        """Ask back what the front of a queue of groups lacks in the places that are kept for it."""
        kept = self._reservations.of(queue.front.request.id)
        if kept is None:
            return
        for place, wants in kept.wants.items():
            for lease in self._choose(place, wants, None) or ():
                self._ask(lease)

    def _count(self, kind: Kind) -> int:
        return self._holders.count(kind) + self._served[kind]

    def _pool(self, place: Place) -> ResourcePool:
        pool = self._pools.get(place)
        if pool is None:
            pool = self._pools[place] = place.pool.copy()
            for id in place.leases.keys() & self._holders.asked.keys():
                _give_back(pool, place.leases[id])
        return pool

    def _may_use(self, queue: ShapeQueue, place: Place) -> bool:
        near = place.group == queue.group if isinstance(place, BundlePlace) else queue.group is None
        kept = self._reservations.at(place)
        return (
            near
            and self._ledger.is_open(place)
            and (kept is None or kept.queue is queue)
            and self._finder.allowed(queue, place)
        )

    def _take(self, queue: ShapeQueue, free: list[Place]) -> bool:
        """Take what one request of a queue wants from what others will have given back; drop places without room."""
        while free:
            if self._pools[free[-1]].acquire(queue.wanted) is not None:
                return True
            free.pop()
        return False

    def _free_one(self, queue: ShapeQueue, request: LeaseRequest, kind: Kind, free: list[Place]) -> bool:
        """Ask as few leases as make room for one request of `queue`, all in one place; return whether that is done."""
        best: list[Lease] | None = None
        own = self._count(kind)
        for place in islice(self._promising(queue, request, kind, own), PLACES_COMPARED):
            if not self._choices_left:
                break
            self._choices_left -= 1
            chosen = self._choose(place, [queue.wanted], None if request.for_actor else own, kind)
            if chosen and (best is None or len(chosen) < len(best)):
                best = chosen
            if best and len(best) == 1:
                break
        if not best:
            return False
        for lease in best:
            self._ask(lease)
        free.append(best[0].place)
        return self._take(queue, free)

    def _promising(self, queue: ShapeQueue, request: LeaseRequest, kind: Kind, own: int) -> Iterator[Place]:
        """Yield places where a holder that may be asked has something that is wanted, the largest holders' first."""
        seen: set[Place] = set()
        for place in self._bound(queue):
            if place.pool.fits_ever(queue.wanted) and self._may_use(queue, place):
                yield place
        if queue.group is not None or (queue.placement.node is not None and not queue.placement.soft):
            return
        by_kind = self._holders.by_kind
        for other in sorted(by_kind, key=self._count, reverse=True):
            if not request.for_actor and self._count(other) <= own:
                return
            leases = by_kind[other]
            first = next(iter(leases.values()))
            if other == kind or first.request.wanted.keys().isdisjoint(queue.wanted):
                continue
            for lease in list(islice(leases.values(), self._holders_left)):
                self._holders_left -= 1
                place = lease.place
                if place in seen:
                    continue
                seen.add(place)
                if place.pool.fits_ever(queue.wanted) and self._may_use(queue, place):
                    yield place
                else:  # so that those behind it are looked at next time
                    leases[lease.request.id] = leases.pop(lease.request.id)

    def _bound(self, queue: ShapeQueue) -> Iterable[Place]:
        if queue.group is not None:
            group = self._ledger.groups.get(queue.group)
            return group.bundles.values() if group is not None else ()
        if queue.placement.node is not None:
            target = affine_node(self._ledger, queue.placement, queue.wanted)
            return (target,) if target is not None else ()
        return ()

    def _choose(
        self, place: Place, wants: Sequence[Amounts], own: int | None, kind: Kind | None = None
    ) -> list[Lease] | None:
        """Return the leases to ask in a place so that all of `wants` fit; None when that can't be.

        `own` is how many leases the one who waits has: only those with more are asked. None: anybody may be asked.
        """
        pool = self._pool(place).copy()
        taken: Counter[Kind] = Counter()
        held = self._holders
        left = [
            lease
            for lease in place.leases.values()
            if not lease.request.for_actor and lease.request.id not in held.asked and held.kind(lease) != kind
        ]
        chosen: list[Lease] = []
        while missing := _missing(pool, wants):
            able = [
                lease
                for lease in left
                if any(lease.holds(name) > 0 for name in missing)
                and (own is None or self._count(held.kind(lease)) - taken[held.kind(lease)] > own)
            ]
            if not able:
                return None
            pick = min(able, key=lambda lease: (taken[held.kind(lease)] - self._count(held.kind(lease)), lease.number))
            left.remove(pick)
            chosen.append(pick)
            taken[held.kind(pick)] += 1
            _give_back(pool, pick)
        return self._without_needless(place, wants, chosen)

    def _without_needless(self, place: Place, wants: Sequence[Amounts], chosen: list[Lease]) -> list[Lease]:
        for lease in list(chosen) if len(chosen) > 1 else ():
            pool = self._pool(place).copy()
            for other in chosen:
                if other is not lease:
                    _give_back(pool, other)
            if not _missing(pool, wants):
                chosen.remove(lease)
        return chosen

    def _ask(self, lease: Lease) -> None:
        _give_back(self._pool(lease.place), lease)
        self._holders.ask(lease)
        self.asked.append(lease)


def _missing(pool: ResourcePool, wants: Sequence[Amounts]) -> Amounts:
    """Return what the first of `wants` that does not fit beside the others lacks; nothing when all of them fit."""
    if len(wants) == 1:
        return pool.missing(wants[0])
    rest = pool.copy()
    for wanted in wants:
        if rest.acquire(wanted) is None:
            return rest.missing(wanted)
    return {}


def _give_back(pool: ResourcePool, lease: Lease) -> None:
    if lease.lent:
        pool.reclaim("CPU", lease.lent)
    pool.release(lease.grant.allocation)

"""Finding the leases whose end would make room: the fewest on one node, the least important and youngest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice

from kernel_scheduler_fair.accounts import Account, Accounts
from kernel_scheduler_fair.fair_ledger import FairLedger
from kernel_scheduler_fair.holders import Holders, Kind, kind_key
from kernel_scheduler_fair.order import Order
from kernel_scheduler_fair.plan_table import Claims, PlanTable
from kernel_scheduler_fair.queues import AccountQueue
from kernel_spec.choosing import allows, bundles_for, right_nodes
from kernel_spec.holdings import Group, Lease, NodePlace, Place
from kernel_spec.ids import LeaseId, NodeId, ProcessId
from kernel_spec.packing import Misfit, pack, total_of
from kernel_spec.resources import CPU, Amounts, ResourcePool
from kernel_spec.scheduling import LeaseRequest

MOST_LOOKED_AT = 64
"""How many leases of a kind are looked at, the youngest first, to find a node where few must end."""
LEAST_NODES = 64
"""On how many nodes at least room for a placement group is looked for, if there are so many."""

Found = tuple[Claims, dict[LeaseId, Lease]]


class RoomSearch:
    """One look around at one moment. It counts what plans will change as if that had happened."""

    def __init__(
        self, plans: PlanTable, ledger: FairLedger, accounts: Accounts, holders: Holders, order: Order, now: float
    ) -> None:
        self._plans = plans
        self._ledger = ledger
        self._accounts = accounts
        self._holders = holders
        self._order = order
        self._now = now
        # What accounts and processes will have gained or lost when every plan has come true.
        self._gains: dict[Account, Counter[str]] = {}
        self._leases_gained: Counter[tuple[Account, ProcessId]] = Counter()
        # For the queue that is looked for: its priority, and which kinds come after it, roughly.
        self._mine = 0.0
        self._willing: dict[Kind, bool] = {}
        for plan in plans:
            self._count_waiting(plan.queue, 1)
            for lease in plan.leases.values():
                self._count_lease(lease, -1)

    def room_for(self, queue: AccountQueue, starving: bool) -> Found | None:
        """Return what to claim and which leases to end for the next request of a queue, or None; count it as done."""
        if not queue.profile.account.allows(_sum(queue.costs, self._gains.get(queue.profile.account, {}))):
            return None
        self._mine = self._order.priority(queue, self._now)
        self._willing.clear()
        found = self._for_group(queue, starving) if queue.group is not None else self._for_lease(queue, starving)
        if found is not None:
            self._count_waiting(queue, 1)
            for lease in found[1].values():
                self._count_lease(lease, -1)
        return found

    # -- for a lease, for a group ----------------------------------------------------------------------------------

    def _for_lease(self, queue: AccountQueue, starving: bool) -> Found | None:
        best: list[Lease] | None = None
        where: Place | None = None
        for place in self._places(queue, starving):
            chosen = self._victims(queue, place, queue.wanted, starving)
            if chosen and (best is None or len(chosen) < len(best)):
                best, where = chosen, place
                if len(chosen) == 1:
                    break
        if best is None or where is None:
            return None
        claims = {where.node: [queue.wanted]} if isinstance(where, NodePlace) else {}
        return claims, {lease.request.id: lease for lease in best}

    def _for_group(self, queue: AccountQueue, starving: bool) -> Found | None:
        group = queue.group
        assert group is not None
        nodes = self._nodes_for(queue, group, starving)
        pools = {}
        for node in nodes:
            pool = self._pool_after_plans(node)
            if pool is not None:
                for lease in self._able(queue, node, starving):
                    _give_back(pool, lease)
                pools[node.node] = pool
        beside = [place.node for place in group.bundles.values()]
        packed = pack(group.waiting(), group.request.strategy, pools, beside, right_nodes(self._ledger, group))
        if isinstance(packed, Misfit):
            return None
        claims: Claims = {}
        for bundle in packed:
            claims.setdefault(bundle.node, []).append(bundle.allocation.amounts)
        leases: dict[LeaseId, Lease] = {}
        for id, wanted in claims.items():
            chosen = self._victims(queue, self._ledger.nodes[id], total_of(wanted), starving)
            if chosen is None:
                return None
            leases |= {lease.request.id: lease for lease in chosen}
        return (claims, leases) if leases else None

    # -- where -----------------------------------------------------------------------------------------------------

    def _places(self, queue: AccountQueue, starving: bool) -> Iterator[Place]:
        request = queue.front.request
        assert isinstance(request, LeaseRequest) and queue.profile.placement is not None
        if request.group is not None:
            yield from islice(bundles_for(self._ledger, request), MOST_LOOKED_AT)
            return
        for node in self._nodes_of_holders(queue, starving):
            if allows(self._ledger, queue.profile.placement, queue.wanted, node) and node.pool.fits_ever(queue.wanted):
                yield node

    def _nodes_for(self, queue: AccountQueue, group: Group, starving: bool) -> list[NodePlace]:
        """Return nodes of those who would make room for a group, and others that could hold some of it."""
        most = max(LEAST_NODES, 4 * len(group.request.bundles))
        found = dict.fromkeys(islice(self._nodes_of_holders(queue, starving), most))
        for wanted in (queue.wanted, *queue.pieces):
            found |= dict.fromkeys(islice(self._ledger.could.search(wanted, (), 0.0, False), most))
        return list(found)

    def _nodes_of_holders(self, queue: AccountQueue, starving: bool) -> Iterator[NodePlace]:
        seen: set[NodeId] = set()
        kinds = [kind for kind in self._holders if self._deserves(queue, kind, starving)]
        for kind in sorted(kinds, key=self._worth):
            for lease in islice(reversed(kind.leases.values()), MOST_LOOKED_AT):
                place = lease.place
                if isinstance(place, NodePlace) and place.node not in seen and not place.draining:
                    seen.add(place.node)
                    yield place

    # -- who -------------------------------------------------------------------------------------------------------

    def _victims(self, queue: AccountQueue, place: Place, wanted: Amounts, starving: bool) -> list[Lease] | None:
        """Return the leases whose end makes room for `wanted` in a place; None when nothing does."""
        pool = self._pool_after_plans(place)
        if pool is None:
            return None
        chosen: list[Lease] = []
        for lease in sorted(self._able(queue, place, starving), key=self._worth_of_lease):
            missing = pool.missing(wanted)
            if not missing:
                break
            # Those chosen so far count as gone: a process that has given enough is left alone.
            if _frees(lease, missing) and self._deserves(queue, self._holders.kind_of(lease), starving):
                chosen.append(lease)
                self._count_lease(lease, -1)
                _give_back(pool, lease)
        for lease in chosen:
            self._count_lease(lease, 1)
        return None if pool.missing(wanted) else self._needed(place, wanted, chosen)

    def _needed(self, place: Place, wanted: Amounts, chosen: list[Lease]) -> list[Lease]:
        """Return those of the chosen without whom there is not room."""
        for lease in list(chosen):
            pool = self._pool_after_plans(place)
            assert pool is not None
            for other in chosen:
                if other is not lease:
                    _give_back(pool, other)
            if not pool.missing(wanted):
                chosen.remove(lease)
        return chosen

    def _able(self, queue: AccountQueue, place: Place, starving: bool) -> list[Lease]:
        """Return the leases in a place that might be asked for a queue."""
        able = []
        for id, lease in place.leases.items():
            kind = self._holders.kind_of(lease)
            willing = self._willing.get(kind)
            if willing is None:
                willing = self._willing[kind] = self._deserves(queue, kind, starving)
            if willing and id not in self._plans.of_lease:
                able.append(lease)
        return able

    def _deserves(self, queue: AccountQueue, kind: Kind, starving: bool) -> bool:
        """Return whether the next request of a queue comes before a lease of that kind."""
        request = queue.front.request
        if kind.for_actor and not (kind.preemptible and kind.priority < queue.profile.priority):
            return False
        if isinstance(request, LeaseRequest) and kind.key == kind_key(queue.profile, request):
            return False
        if self._mine != kind.priority or starving:
            return self._mine >= kind.priority
        if kind.account is not queue.profile.account:
            loses = {name: -units for name, units in _amounts_of(kind).items()}
            return self._share(kind.account, loses) >= self._share(queue.profile.account, queue.costs)
        if not isinstance(request, LeaseRequest) or request.for_actor:
            return True
        return self._held(kind.account, kind.requester) > self._held(queue.profile.account, request.requester)

    def _worth(self, kind: Kind) -> tuple[float, bool, float]:
        return kind.priority, not kind.preemptible, -self._share(kind.account, {})

    def _worth_of_lease(self, lease: Lease) -> tuple[bool, float, bool, float, int]:
        return lease.request.id not in self._plans.asked, *self._worth(self._holders.kind_of(lease)), -lease.number

    # -- as if plans had come true ---------------------------------------------------------------------------------

    def _pool_after_plans(self, place: Place) -> ResourcePool | None:
        """Return what is free in a place when its plans have come true; None when something has come between."""
        pool = place.pool.copy()
        if not isinstance(place, NodePlace):
            return pool
        plans = self._plans.on_node.get(place.node, ())
        for plan in plans:
            for lease in plan.leases.values():
                if lease.place is place:
                    _give_back(pool, lease)
        for plan in plans:
            for wanted in plan.claims[place.node]:
                if pool.acquire(wanted) is None:
                    return None
        return pool

    def _share(self, account: Account, more: Mapping[str, int]) -> float:
        return self._accounts.share(account, _sum(more, self._gains.get(account, {})))

    def _held(self, account: Account, process: ProcessId) -> int:
        return self._holders.held_by(account, process) + self._leases_gained[account, process]

    def _count_waiting(self, queue: AccountQueue, sign: int) -> None:
        self._gain(queue.profile.account, queue.costs, sign)
        request = queue.front.request
        if isinstance(request, LeaseRequest):
            self._leases_gained[queue.profile.account, request.requester] += sign

    def _count_lease(self, lease: Lease, sign: int) -> None:
        kind = self._holders.kind_of(lease)
        if lease.request.group is None:
            self._gain(kind.account, lease.grant.allocation.amounts, sign)
        self._leases_gained[kind.account, kind.requester] += sign

    def _gain(self, account: Account, held: Mapping[str, int], sign: int) -> None:
        gained = self._gains.setdefault(account, Counter())
        for name, units in held.items():
            gained[name] += sign * units


def _sum(some: Mapping[str, int], others: Mapping[str, int]) -> Amounts:
    return {name: some.get(name, 0) + others.get(name, 0) for name in {*some, *others}}


def _amounts_of(kind: Kind) -> Amounts:
    lease = next(iter(kind.leases.values()))
    return {} if lease.request.group is not None else lease.grant.allocation.amounts


def _frees(lease: Lease, missing: Amounts) -> bool:
    held = lease.grant.allocation.amounts
    return any(held.get(name, 0) > (lease.lent if name == CPU else 0) for name in missing)


def _give_back(pool: ResourcePool, lease: Lease) -> None:
    if lease.lent:
        pool.reclaim(CPU, lease.lent)
    pool.release(lease.grant.allocation)

"""The most important request first, and among equals the one that came first."""

from __future__ import annotations

from bisect import insort

from kernel_spec import scheduling as s
from kernel_spec.ids import LeaseId, NodeId
from kernel_spec.resources import CPU, ResourcePool, describe


def priority(request: s.LeaseRequest) -> float:
    """Return the request's `priority` hint; what is not a number counts as 0."""
    hint = request.hints.get("priority", 0)
    return hint if isinstance(hint, int | float) and hint == hint else 0


class PriorityScheduler:
    """Keeps everybody who waits in one list, most important first, and grants whatever fits, from the front."""

    name = "priority"

    def __init__(self) -> None:
        self.pools: dict[NodeId, ResourcePool] = {}
        self.waiting: list[s.LeaseRequest] = []
        self.granted: dict[LeaseId, tuple[s.LeaseRequest, s.Grant]] = {}
        self.blocked: set[LeaseId] = set()
        self.asked: set[LeaseId] = set()

    def handle(self, event: s.Event, now: float) -> list[s.Instruction]:
        """Take one event in and return what to do, in order."""
        match event:
            case s.NodeAdded(node, total) if node in self.pools:
                self.pools[node].resize(total)
            case s.NodeAdded(node, total):
                self.pools[node] = ResourcePool(total, event.device_resources)
            case s.NodeRemoved(node):
                self.pools.pop(node, None)
                self.granted = {id: held for id, held in self.granted.items() if held[1].node != node}
            case s.ResourceChanged(node, name, quantity) if node in self.pools:
                if name not in self.pools[node].device_resources:
                    self.pools[node].set_total(name, quantity)
            case s.LeaseRequested(request):
                insort(self.waiting, request, key=lambda request: -priority(request))
            case s.LeaseCancelled(id):
                self.waiting = [request for request in self.waiting if request.id != id]
            case s.LeaseReleased(id) if id in self.granted:
                self._set_blocked(id, False)
                grant = self.granted.pop(id)[1]
                self.pools[grant.node].release(grant.allocation)
            case s.LeaseBlocked(id) | s.LeaseUnblocked(id):
                self._set_blocked(id, isinstance(event, s.LeaseBlocked))
            case s.Tick():
                return self._reclaim()
        return self._grant()

    def explain(self, id: LeaseId, now: float) -> s.Reason:
        """Say why the request `id` waits."""
        if id in self.granted:
            return s.Reason("granted", f"it holds {describe(self.granted[id][1].allocation.amounts)}")
        found = [(place, request) for place, request in enumerate(self.waiting, 1) if request.id == id]
        if not found:
            return s.Reason("unknown", f"no request {id.hex()} waits")
        place, request = found[0]
        able = [pool for pool in self.pools.values() if pool.fits_ever(request.wanted)]
        if not able:
            return s.Reason("infeasible", f"no node ever has {describe(request.wanted)}")
        lacking = able[0].missing(request.wanted)
        holders = sorted({held.name for held, _ in self.granted.values() if lacking.keys() & held.wanted.keys()})
        text = (
            f"number {place} in line with priority {priority(request):g}, lacks {describe(lacking)}, held by {holders}"
        )
        return s.Reason("busy", text)

    def snapshot(self) -> s.SchedulerSnapshot:
        """Return a copy of what is held."""
        return s.SchedulerSnapshot(
            total={node: dict(pool.total) for node, pool in self.pools.items()},
            available={node: dict(pool.available) for node, pool in self.pools.items()},
            waiting=list(self.waiting),
            granted={id: grant for id, (_, grant) in self.granted.items()},
        )

    def validate(self) -> None:
        """Raise AssertionError when an invariant is broken."""
        for pool in self.pools.values():
            pool.validate()
        order = [-priority(request) for request in self.waiting]
        assert order == sorted(order), f"the line is out of order: {order}"

    def _set_blocked(self, id: LeaseId, blocked: bool) -> None:
        if id not in self.granted or (id in self.blocked) == blocked:
            return
        grant = self.granted[id][1]
        units, pool = grant.allocation.amounts.get(CPU, 0), self.pools[grant.node]
        (pool.lend if blocked else pool.reclaim)(CPU, units)
        self.blocked ^= {id}

    def _grant(self) -> list[s.Instruction]:
        grants: list[s.Instruction] = []
        for request in list(self.waiting):
            for node, pool in self.pools.items():
                allocation = pool.acquire(request.wanted)
                if allocation is not None:
                    grant = s.Grant(request.id, node, allocation)
                    self.granted[request.id] = request, grant
                    self.waiting.remove(request)
                    grants.append(grant)
                    break
        self.blocked &= self.granted.keys()
        self.asked = self.asked & self.granted.keys() if self.waiting else set()
        return grants

    def _reclaim(self) -> list[s.Instruction]:
        """Ask one holder back: the least important of those who have what the first in line lacks."""
        for request in self.waiting:
            for node, pool in self.pools.items():
                lacking = pool.missing(request.wanted).keys() if pool.fits_ever(request.wanted) else set()
                holders = [
                    (priority(held), id)
                    for id, (held, grant) in self.granted.items()
                    if grant.node == node and id not in self.asked and not held.for_actor
                    if lacking & held.wanted.keys() and priority(held) < priority(request)
                ]
                if holders:
                    self.asked.add(min(holders)[1])
                    return [s.Reclaim(min(holders)[1])]
        return []

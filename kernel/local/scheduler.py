"""The scheduler in its simplest correct form: one list, first fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kernel_spec.ids import LeaseId, NodeId
from kernel_spec.resources import CPU, ResourcePool, describe
from kernel_spec.scheduling import (
    Event,
    Grant,
    Instruction,
    LeaseBlocked,
    LeaseCancelled,
    LeaseReleased,
    LeaseRequest,
    LeaseRequested,
    LeaseUnblocked,
    NodeAdded,
    NodeRemoved,
    Reason,
    Reclaim,
    ResourceChanged,
    SchedulerSnapshot,
    Tick,
)


class LocalScheduler:
    """Goes through everybody who waits, in the order they came, and gives each the first node where it fits.

    A request that fits nowhere is passed by, so a large one can wait long among many small ones. While anybody
    waits, one holder of what the first of them lacks is asked back at each tick.
    """

    name = "local"

    def __init__(self) -> None:
        self._pools: dict[NodeId, ResourcePool] = {}
        self._waiting: dict[LeaseId, LeaseRequest] = {}
        self._requests: dict[LeaseId, LeaseRequest] = {}
        self._granted: dict[LeaseId, Grant] = {}
        self._lent: set[LeaseId] = set()
        self._asked: set[LeaseId] = set()

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """Take one event in and return what to do, in order."""
        match event:
            case NodeAdded():
                self._add_node(event)
            case NodeRemoved(node):
                self._remove_node(node)
            case ResourceChanged(node, name, quantity):
                if node in self._pools and name not in self._pools[node].device_resources:
                    self._pools[node].set_total(name, quantity)
            case LeaseRequested(request):
                if request.id not in self._granted:
                    self._waiting.setdefault(request.id, request)
            case LeaseCancelled(id):
                self._waiting.pop(id, None)
            case LeaseReleased(id):
                self._release(id)
            case LeaseBlocked(id):
                self._set_lent(id, True)
            case LeaseUnblocked(id):
                self._set_lent(id, False)
            case Tick():
                return self._reclaim()
        return self._grant_what_fits()

    def explain(self, id: LeaseId, now: float) -> Reason:
        """Say why the request `id` waits."""
        if id in self._granted:
            return Reason("granted", f"it was granted on node {self._granted[id].node.hex()}")
        request = self._waiting.get(id)
        if request is None:
            return Reason("unknown", f"the scheduler knows no request {id.hex()}")
        wanted = describe(request.wanted)
        able = [pool for pool in self._nodes_for(request).values() if pool.fits_ever(request.wanted)]
        if not able:
            has = "; ".join(describe(pool.total) for pool in self._pools.values()) or "nothing"
            return Reason("infeasible", f"it wants {wanted}, and no node it may use has that much; nodes have: {has}")
        missing = min((pool.missing(request.wanted) for pool in able), key=lambda missing: sum(missing.values()))
        names = {
            self._requests[other].name or other.hex()
            for other, grant in self._granted.items()
            if not missing.keys().isdisjoint(grant.allocation.amounts)
        }
        text = f"it wants {wanted} and lacks {describe(missing)}, held by {', '.join(sorted(names)[:5])}"
        return Reason("busy", text)

    def snapshot(self) -> SchedulerSnapshot:
        """Return a copy of what is held."""
        return SchedulerSnapshot(
            total={node: dict(pool.total) for node, pool in self._pools.items()},
            available={node: dict(pool.available) for node, pool in self._pools.items()},
            waiting=list(self._waiting.values()),
            granted=dict(self._granted),
        )

    def validate(self) -> None:
        """Raise AssertionError when what is free and what is held do not add up."""
        for pool in self._pools.values():
            pool.validate()
        for node, pool in self._pools.items():
            held = [(id, grant) for id, grant in self._granted.items() if grant.node == node]
            for name in pool.total.keys() | pool.available.keys():
                used = sum(
                    grant.allocation.amounts.get(name, 0)
                    for id, grant in held
                    if not (name == CPU and id in self._lent)
                )
                free = pool.available.get(name, 0)
                assert free == pool.total.get(name, 0) - used, f"node {node.hex()}: {free} {name} free, {used} used"
        assert self._waiting.keys().isdisjoint(self._granted), "a request both waits and is granted"

    # -- what events change ----------------------------------------------------------------------------------------

    def _add_node(self, event: NodeAdded) -> None:
        if event.node in self._pools:
            self._pools[event.node].resize(event.total)
        else:
            self._pools[event.node] = ResourcePool(event.total, event.device_resources)

    def _remove_node(self, node: NodeId) -> None:
        self._pools.pop(node, None)
        for id in [id for id, grant in self._granted.items() if grant.node == node]:
            self._forget(id)

    def _release(self, id: LeaseId) -> None:
        if id in self._granted:
            self._set_lent(id, False)
            self._pools[self._granted[id].node].release(self._granted[id].allocation)
            self._forget(id)

    def _forget(self, id: LeaseId) -> None:
        del self._granted[id], self._requests[id]
        self._lent.discard(id)
        self._asked.discard(id)

    def _set_lent(self, id: LeaseId, lent: bool) -> None:
        if id not in self._granted or (id in self._lent) == lent:
            return
        grant = self._granted[id]
        units = grant.allocation.amounts.get(CPU, 0)
        if lent:
            self._pools[grant.node].lend(CPU, units)
            self._lent.add(id)
        else:
            self._pools[grant.node].reclaim(CPU, units)
            self._lent.discard(id)

    # -- what comes of it ------------------------------------------------------------------------------------------

    def _grant_what_fits(self) -> list[Instruction]:
        grants: list[Instruction] = []
        for request in list(self._waiting.values()):
            for node, pool in self._nodes_for(request).items():
                allocation = pool.acquire(request.wanted)
                if allocation is not None:
                    grant = Grant(request.id, node, allocation)
                    self._granted[request.id] = grant
                    self._requests[request.id] = self._waiting.pop(request.id)
                    grants.append(grant)
                    break
        if not self._waiting:
            self._asked.clear()
        return grants

    def _nodes_for(self, request: LeaseRequest) -> Mapping[NodeId, ResourcePool]:
        """Return the nodes where a request may go, the one to try first in front."""
        strategy = request.strategy
        if isinstance(strategy, Mapping) and strategy.get("type") == "node_affinity":
            chosen = {node: pool for node, pool in self._pools.items() if node.hex() == strategy.get("node")}
            able = any(pool.fits_ever(request.wanted) for pool in chosen.values())
            return self._pools if strategy.get("soft") and not able else chosen
        if strategy == "SPREAD":
            return dict(sorted(self._pools.items(), key=lambda item: self._load(*item)))
        return self._pools

    def _load(self, node: NodeId, pool: ResourcePool) -> tuple[float, int]:
        used = [1 - pool.available.get(name, 0) / units for name, units in pool.total.items()]
        return max(used, default=0.0), sum(grant.node == node for grant in self._granted.values())

    def _reclaim(self) -> list[Instruction]:
        for request in self._waiting.values():
            for pool_node, pool in self._nodes_for(request).items():
                if pool.fits_ever(request.wanted):
                    holder = self._holder(pool_node, pool.missing(request.wanted), request)
                    if holder is not None:
                        self._asked.add(holder)
                        return [Reclaim(holder)]
        return []

    def _holder(self, node: NodeId, missing: Iterable[str], wants: LeaseRequest) -> LeaseId | None:
        """Return the oldest lease on `node` to ask for some of `missing`: no actor's, and not of the same kind."""
        for id, grant in self._granted.items():
            request = self._requests[id]
            same = (request.requester, request.wanted, request.hints) == (wants.requester, wants.wanted, wants.hints)
            if grant.node != node or request.for_actor or id in self._asked or (same and not wants.for_actor):
                continue
            if any(grant.allocation.amounts.get(name) and not (name == CPU and id in self._lent) for name in missing):
                return id
        return None

"""Whom to ask for a lease back, so that those who wait get a turn.

A holder keeps a lease while it has tasks for it, which may be hours. So when a request has waited a moment, enough
holders of what it lacks are asked to end, the one with the most leases first. A holder is asked only while it has
more leases than the one who waits: two that want the same end up with about half each and stay there. Actors come
first, since what they get they keep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from itertools import islice

from kernel_scheduler_fifo.lines import Line, Lines, Waiting
from kernel_scheduler_fifo.nodes import Lease, NodeState, allowed_nodes
from kernel_spec.ids import NodeId
from kernel_spec.resources import CPU, ResourcePool
from kernel_spec.scheduling import LeaseRequest

PATIENCE_SECONDS = 0.1
"""How long a request waits before anybody is asked: most leases end on their own sooner."""
LOOK_AHEAD = 64
"""How many requests of each line are considered at a time."""

Group = Hashable


def group_of(request: LeaseRequest) -> Group:
    """Return what a lease can stand in for: the same process's requests for the same kind of worker."""
    wanted = frozenset(request.wanted.items())
    hints = repr(sorted(request.hints.items(), key=lambda item: str(item[0])))
    strategy = request.strategy if isinstance(request.strategy, str) else repr(sorted(request.strategy.items()))
    return request.requester, wanted, strategy, hints, request.environment, request.for_actor


def choose_leases_to_reclaim(lines: Lines, nodes: Mapping[NodeId, NodeState], now: float, episode: int) -> list[Lease]:
    """Return the leases to ask back now, none of which was asked in this episode before."""
    patient = [line for line in lines.oldest_first() if now - line.front.since >= PATIENCE_SECONDS]
    if not patient:
        return []
    plan = _Plan(nodes, episode)
    for line in patient:
        plan.serve(line, now)
    return plan.asked


class _Plan:
    """What would be free once everybody asked has given back, and who would then have how many leases."""

    def __init__(self, nodes: Mapping[NodeId, NodeState], episode: int) -> None:
        self.asked: list[Lease] = []
        self._nodes = nodes
        self._pools = {id: node.pool.copy() for id, node in nodes.items()}
        self._holders: dict[NodeId, list[tuple[Group, Lease]]] = {id: [] for id in nodes}
        self._held: Counter[Group] = Counter()
        for id, node in nodes.items():
            for lease in node.leases.values():
                if lease.request.for_actor:
                    continue
                if lease.asked_in == episode:
                    _give_back(self._pools[id], lease)
                    continue
                group = group_of(lease.request)
                self._held[group] += 1
                self._holders[id].append((group, lease))

    def serve(self, line: Line, now: float) -> None:
        """Plan for the requests of one line, in its order.

        What is freed goes to the front of the line, whoever it was asked back for. So when a request deserves
        something and those before it do not, they are served on its behalf.
        """
        before = 0
        hopeless: set[Group] = set()
        for entry in islice(line.waiting.values(), LOOK_AHEAD):
            if now - entry.since < PATIENCE_SECONDS:
                return
            group = group_of(entry.request)
            if not before and self._take_free(line):
                self._held[group] += 1
                continue
            before += 1
            if group in hopeless:
                continue
            while before and self._free_one(line, entry, group):
                before -= 1
            if before:
                hopeless.add(group)
            else:
                self._held[group] += 1

    def _take_free(self, line: Line) -> bool:
        for node in allowed_nodes(line.placement, line.wanted, self._nodes.values(), self._nodes):
            if self._pools[node.id].acquire(line.wanted) is not None:
                return True
        return False

    def _free_one(self, line: Line, entry: Waiting, group: Group) -> bool:
        """Ask as few leases as make room for one request of `line`, all on one node; return whether that is enough."""
        if self._take_free(line):
            return True
        best: list[tuple[Group, Lease]] | None = None
        for node in allowed_nodes(line.placement, line.wanted, self._nodes.values(), self._nodes):
            if node.pool.fits_ever(line.wanted):
                chosen = self._choose(node.id, line, entry, group)
                if chosen is not None and (best is None or len(chosen) < len(best)):
                    best = chosen
        if not best:
            return False
        for owner, lease in best:
            self._held[owner] -= 1
            self._holders[lease.grant.node].remove((owner, lease))
            _give_back(self._pools[lease.grant.node], lease)
            self.asked.append(lease)
        return self._pools[best[0][1].grant.node].acquire(line.wanted) is not None

    def _choose(self, node: NodeId, line: Line, entry: Waiting, group: Group) -> list[tuple[Group, Lease]] | None:
        pool = self._pools[node].copy()
        held = Counter(self._held)
        left = [(owner, lease) for owner, lease in self._holders[node] if owner != group]
        chosen: list[tuple[Group, Lease]] = []
        while missing := pool.missing(line.wanted):
            able = [
                (owner, lease)
                for owner, lease in left
                if any(_would_free(lease, name) for name in missing)
                and (entry.request.for_actor or held[owner] > held[group])
            ]
            if not able:
                return None
            pick = min(able, key=lambda pair: (-held[pair[0]], pair[1].number))
            left.remove(pick)
            chosen.append(pick)
            held[pick[0]] -= 1
            _give_back(pool, pick[1])
        return self._without_needless(node, line, chosen)

    def _without_needless(
        self, node: NodeId, line: Line, chosen: list[tuple[Group, Lease]]
    ) -> list[tuple[Group, Lease]]:
        for pair in list(chosen):
            pool = self._pools[node].copy()
            for other in chosen:
                if other is not pair:
                    _give_back(pool, other[1])
            if not pool.missing(line.wanted):
                chosen.remove(pair)
        return chosen


def _would_free(lease: Lease, name: str) -> bool:
    units = lease.grant.allocation.amounts.get(name, 0)
    return units > (lease.lent if name == CPU else 0)


def _give_back(pool: ResourcePool, lease: Lease) -> None:
    if lease.lent:
        pool.reclaim(CPU, lease.lent)
    pool.release(lease.grant.allocation)

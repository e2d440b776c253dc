"""Where placement groups go, and what is kept for one that waits: a place for every bundle, or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from kernel_scheduler_fifo.nodes import Nodes
from kernel_scheduler_fifo.queues import QueuedRequest, ShapeQueue
from kernel_scheduler_fifo.reservations import Reservations
from kernel_spec.choosing import right_nodes
from kernel_spec.finding import NODES_COMPARED, choices_for_group, distinct, kinds_of_bundles
from kernel_spec.holdings import Group, NodePlace, Place
from kernel_spec.ids import GroupId, NodeId
from kernel_spec.packing import Misfit, pack, total_of
from kernel_spec.resources import Amounts, ResourcePool
from kernel_spec.scheduling import PlaceGroup


class GroupPlacing:
    """Fits groups into the nodes that an index finds for their bundles, without looking at all nodes."""

    def __init__(self, nodes: Nodes, reservations: Reservations) -> None:
        self._nodes = nodes
        self._reservations = reservations
        self._misfits: dict[GroupId, Amounts] = {}

    def group(self, entry: QueuedRequest) -> Group:
        """Return the group that waits."""
        return self._nodes.groups[GroupId(entry.request.id)]

    def may_fit(self, queue: ShapeQueue, place: Place | None = None) -> bool:
        """Return whether it is worth trying to place the front of a queue, now that `place` has more (None: anyhow)."""
        sums = self._nodes.free.sums()
        if any(sums.get(name, 0) < units for name, units in queue.wanted.items()):
            return False
        if place is None:
            return True
        group = self.group(queue.front)
        missing = self._misfits.get(group.request.id)
        wants = [missing] if missing is not None else distinct(group.waiting())
        return any(not place.pool.missing(wanted) for wanted in wants)

    def place(self, entry: QueuedRequest) -> PlaceGroup | None:
        """Place all bundles that a group waits for, or none."""
        group = self.group(entry)
        waiting = group.waiting()
        beside = [place.node for place in group.bundles.values()]
        for pools in self._choices(group, entry.number):
            packed = pack(waiting, group.request.strategy, pools, beside, right_nodes(self._nodes, group))
            if not isinstance(packed, Misfit):
                self._misfits.pop(group.request.id, None)
                return self._nodes.place_group(group, packed)
            if packed.bundle >= 0:
                self._misfits[group.request.id] = waiting[packed.bundle]
            else:
                self._misfits.pop(group.request.id, None)
        return None

    def forget(self, id: GroupId) -> None:
        """A group is over."""
        self._misfits.pop(id, None)

    def to_keep(self, queue: ShapeQueue) -> Mapping[Place, Sequence[Amounts]] | None:
        """Return what to keep where for the front of a queue, so that all of it fits once leases have ended."""
        group = self.group(queue.front)
        waiting = group.waiting()
        most = max(NODES_COMPARED, 2 * len(waiting))
        found: dict[NodePlace, None] = {}
        for wanted, labels in [(total_of(waiting.values()), ()), *kinds_of_bundles(group)]:
            able = self._nodes.could.search(wanted, labels, 0.0, False)
            unkept = (node for node in able if self._reservations.at(node) is None)
            found.update(dict.fromkeys(islice(unkept, most)))
        total = total_of(waiting.values())
        nodes = sorted(found, key=lambda node: sum(node.pool.missing(total).values()))
        pools = {node.node: _once_leases_end(node) for node in nodes}
        beside = [place.node for place in group.bundles.values()]
        packed = pack(waiting, group.request.strategy, pools, beside, right_nodes(self._nodes, group))
        if isinstance(packed, Misfit):
            return None
        wants: dict[Place, list[Amounts]] = {}
        for bundle in packed:
            wants.setdefault(self._nodes.nodes[bundle.node], []).append(waiting[bundle.index])
        return wants

    def _choices(self, group: Group, number: int) -> Iterator[dict[NodeId, ResourcePool]]:
        """Yield nodes that are enough to try, better ones first: those that are kept, then others."""
        kept = self._reservations.of(group.request.id)
        if kept is not None:
            yield {place.node: place.pool for place in kept.wants}
        yield from choices_for_group(self._nodes, group, lambda node: self._is_free_for(node, number))

    def _is_free_for(self, node: NodePlace, number: int) -> bool:
        """Return whether a node is free of reservations for requests older than the arrival `number`."""
        kept = self._reservations.at(node)
        return kept is None or number <= kept.number


def _once_leases_end(node: NodePlace) -> ResourcePool:
    """Return what a node would have free once every lease that may end on its own has ended."""
    pool = node.pool.copy()
    for lease in node.leases.values():
        if not lease.request.for_actor and not lease.blocked:
            pool.release(lease.grant.allocation)
    return pool

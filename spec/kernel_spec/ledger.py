"""The book-keeping that every scheduler needs: which lease holds which resources on which node.

A ledger applies events (`apply`) and records the scheduler's decisions (`grant`, `place_group`). It has the nodes, the
granted leases and the placement groups, including waiting ones. Waiting requests for leases are kept by the scheduler,
because there schedulers differ. A scheduler with an index of its own overrides the methods that begin with `on_`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kernel_spec.holdings import BundlePlace, Group, Lease, NodePlace, Place, check_place
from kernel_spec.ids import GroupId, LeaseId, NodeId
from kernel_spec.resources import CPU, Allocation, ResourcePool
from kernel_spec.scheduling import (
    Bundle,
    DrainCancelled,
    Event,
    Grant,
    GroupHeld,
    GroupRemoved,
    GroupRequested,
    LeaseBlocked,
    LeaseHeld,
    LeaseReleased,
    LeaseRequest,
    LeaseUnblocked,
    NodeAdded,
    NodeDraining,
    NodeRemoved,
    PlaceGroup,
    ResourceChanged,
    SchedulerSnapshot,
)


class Ledger:
    """All nodes, granted leases and placement groups of a session. Pure; `validate()` states its invariants."""

    def __init__(self) -> None:
        self.nodes: dict[NodeId, NodePlace] = {}
        self.leases: dict[LeaseId, Lease] = {}
        self.groups: dict[GroupId, Group] = {}
        self._nodes_seen = 0
        self._grants = 0
        self._handlers: dict[type, Callable[[Any], Sequence[Place]]] = {
            NodeAdded: self._node_added,
            NodeDraining: self._node_draining,
            DrainCancelled: self._drain_cancelled,
            NodeRemoved: self._node_removed,
            ResourceChanged: self._resource_changed,
            LeaseReleased: self._lease_released,
            LeaseBlocked: self._lease_blocked,
            LeaseUnblocked: self._lease_unblocked,
            LeaseHeld: self._lease_held,
            GroupRequested: self._group_requested,
            GroupHeld: self._group_held,
            GroupRemoved: self._group_removed,
        }

    # -- changes, for an index -------------------------------------------------------------------------------------

    def on_node(self, node: NodePlace) -> None:
        """Called after a node was added, removed (then it is not in `nodes`), began or ceased to drain, or changed."""

    def on_free(self, node: NodePlace) -> None:
        """Called after resources of a node were taken or given back."""

    def on_lease(self, lease: Lease, granted: bool) -> None:
        """Called after a lease was granted or, with `granted` False, ended."""

    # -- what happened ---------------------------------------------------------------------------------------------

    def apply(self, event: Event) -> Sequence[Place]:
        """Record an event and return the places where a request may fit now that did not fit before.

        Events about waiting requests, and of unknown kinds, change nothing.
        """
        handler = self._handlers.get(type(event))
        return handler(event) if handler is not None else ()

    def grant(self, request: LeaseRequest, place: Place, allocation: Allocation) -> Grant:
        """Record that `request` holds `allocation`, which was taken from the pool of `place`; return the grant."""
        bundle = place.bundle.index if isinstance(place, BundlePlace) else -1
        grant = Grant(request.id, place.node, allocation, bundle)
        self._start(request, grant, place)
        return grant

    def place_group(self, group: Group, bundles: tuple[Bundle, ...]) -> PlaceGroup:
        """Record bundles whose allocations were taken from their nodes' pools, and return the instruction."""
        for bundle in bundles:
            self._add_bundle(group, bundle)
        return PlaceGroup(group.request.id, bundles)

    def is_open(self, place: Place) -> bool:
        """Return whether leases may be granted in a place: its node must exist and must not be draining."""
        node = self.nodes.get(place.node)
        return node is not None and not node.draining

    # -- questions -------------------------------------------------------------------------------------------------

    def waiting_groups(self) -> Iterator[Group]:
        """Yield the groups with unplaced bundles, in the order in which they were requested."""
        return (group for group in self.groups.values() if len(group.bundles) < len(group.request.bundles))

    def snapshot(self, waiting: Iterable[LeaseRequest]) -> SchedulerSnapshot:
        """Return a copy of the ledger's content, with the scheduler's `waiting` requests."""
        return SchedulerSnapshot(
            total={id: dict(node.pool.total) for id, node in self.nodes.items()},
            available={id: dict(node.pool.available) for id, node in self.nodes.items()},
            waiting=list(waiting),
            granted={id: lease.grant for id, lease in self.leases.items()},
            groups={
                id: [place.bundle for _, place in sorted(group.bundles.items())]
                for id, group in self.groups.items()
                if group.bundles
            },
            waiting_groups=[group.request for group in self.waiting_groups()],
        )

    def places(self) -> Iterator[Place]:
        """Yield all nodes, and all bundles."""
        for node in self.nodes.values():
            yield node
            yield from node.bundles.values()

    def validate(self) -> None:
        """Raise AssertionError, which names the problem, unless free and held resources add up to the totals."""
        there = {id: lease for place in self.places() for id, lease in place.leases.items()}
        assert there == self.leases, f"leases in places {sorted(there)}, known leases {sorted(self.leases)}"
        for place in self.places():
            check_place(place)
        for node in self.nodes.values():
            for key, place in node.bundles.items():
                assert self.groups[key[0]].bundles.get(key[1]) is place, f"bundle {key} is not its group's"
        for id, group in self.groups.items():
            for index, place in group.bundles.items():
                assert self.nodes[place.node].bundles.get((id, index)) is place, f"bundle {index} is not on its node"

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _node_added(self, event: NodeAdded) -> Sequence[Place]:
        node = self.nodes.get(event.node)
        if node is None:
            self._nodes_seen += 1
            pool = ResourcePool(event.total, event.device_resources)
            node = self.nodes[event.node] = NodePlace(event.node, pool, number=self._nodes_seen)
        else:
            node.pool.resize(event.total)
        node.labels = dict(event.labels)
        self.on_node(node)
        return (node,)

    def _node_draining(self, event: NodeDraining) -> Sequence[Place]:
        node = self.nodes.get(event.node)
        if node is not None:
            node.draining = True
            self.on_node(node)
        return ()

    def _drain_cancelled(self, event: DrainCancelled) -> Sequence[Place]:
        node = self.nodes.get(event.node)
        if node is None or not node.draining:
            return ()
        node.draining = False
        self.on_node(node)
        return (node, *node.bundles.values())

    def _node_removed(self, event: NodeRemoved) -> Sequence[Place]:
        node = self.nodes.pop(event.node, None)
        if node is None:
            return ()
        for place in (node, *node.bundles.values()):
            for lease in place.leases.values():
                del self.leases[lease.request.id]
                self.on_lease(lease, False)
        for group, index in node.bundles:
            del self.groups[group].bundles[index]
        self.on_node(node)
        return ()

    def _resource_changed(self, event: ResourceChanged) -> Sequence[Place]:
        node = self.nodes.get(event.node)
        if node is None or event.name in node.pool.device_resources:
            return ()
        node.pool.set_total(event.name, event.quantity)
        self.on_node(node)
        return (node,)

    # -- leases ----------------------------------------------------------------------------------------------------

    def _lease_released(self, event: LeaseReleased) -> Sequence[Place]:
        lease = self.leases.get(event.id)
        if lease is None:
            return ()
        self._end(lease)
        return (lease.place,)

    def _lease_blocked(self, event: LeaseBlocked) -> Sequence[Place]:
        lease = self.leases.get(event.id)
        if lease is None:
            return ()
        self._set_blocked(lease, True)
        return (lease.place,)

    def _lease_unblocked(self, event: LeaseUnblocked) -> Sequence[Place]:
        lease = self.leases.get(event.id)
        if lease is not None:
            self._set_blocked(lease, False)
        return ()

    def _lease_held(self, event: LeaseHeld) -> Sequence[Place]:
        place = self._place_of(event)
        if place is None or event.request.id in self.leases:
            return ()
        place.pool.take(event.grant.allocation)
        lease = self._start(event.request, event.grant, place)
        self._set_blocked(lease, event.blocked)
        return ()

    def _place_of(self, event: LeaseHeld) -> Place | None:
        """Return the place of a held lease. If the grant names no bundle, it is the one on the node where it fits."""
        if event.request.group is None:
            return self.nodes.get(event.grant.node)
        group = self.groups.get(event.request.group)
        index = max(event.grant.bundle, event.request.bundle)
        places = [place for place in group.bundles.values() if place.node == event.grant.node] if group else []
        if index >= 0:
            return next((place for place in places if place.bundle.index == index), None)
        return min(places, key=lambda place: place.pool.shortage(event.grant.allocation), default=None)

    def _start(self, request: LeaseRequest, grant: Grant, place: Place) -> Lease:
        self._grants += 1
        lease = self.leases[request.id] = Lease(request, grant, place, self._grants)
        place.leases[request.id] = lease
        place.count_stuck(lease.stuck(), 1)
        self._changed(place)
        self.on_lease(lease, True)
        return lease

    def _end(self, lease: Lease) -> None:
        self._set_blocked(lease, False)
        place = lease.place
        place.count_stuck(lease.stuck(), -1)
        place.pool.release(lease.grant.allocation)
        del place.leases[lease.request.id], self.leases[lease.request.id]
        self._changed(place)
        self.on_lease(lease, False)

    def _set_blocked(self, lease: Lease, blocked: bool) -> None:
        if lease.blocked == blocked:
            return
        place = lease.place
        place.count_stuck(lease.stuck(), -1)
        if not blocked:
            place.pool.reclaim(CPU, lease.lent)
        lease.blocked = blocked
        if blocked:
            place.pool.lend(CPU, lease.lent)
        place.count_stuck(lease.stuck(), 1)
        self._changed(place)

    def _changed(self, place: Place) -> None:
        if isinstance(place, NodePlace):
            self.on_free(place)

    # -- groups ----------------------------------------------------------------------------------------------------

    def _group_requested(self, event: GroupRequested) -> Sequence[Place]:
        self.groups.setdefault(event.request.id, Group(event.request))
        return ()

    def _group_held(self, event: GroupHeld) -> Sequence[Place]:
        if event.request.id in self.groups:
            return ()
        group = self.groups[event.request.id] = Group(event.request)
        for bundle in event.bundles:
            node = self.nodes.get(bundle.node)
            if node is not None:
                node.pool.take(bundle.allocation)
                self._add_bundle(group, bundle)
        return ()

    def _group_removed(self, event: GroupRemoved) -> Sequence[Place]:
        group = self.groups.pop(event.id, None)
        if group is None:
            return ()
        freed = []
        for index, place in group.bundles.items():
            for lease in place.leases.values():
                del self.leases[lease.request.id]
                self.on_lease(lease, False)
            node = self.nodes[place.node]
            del node.bundles[event.id, index]
            node.pool.release(place.bundle.allocation)
            node.count_stuck(place.bundle.allocation.amounts, -1)
            self.on_free(node)
            freed.append(node)
        return list(dict.fromkeys(freed))

    def _add_bundle(self, group: Group, bundle: Bundle) -> None:
        node = self.nodes[bundle.node]
        pool = ResourcePool.of(bundle.allocation, node.pool.device_resources)
        place = BundlePlace(bundle.node, pool, group=group.request.id, bundle=bundle)
        group.bundles[bundle.index] = node.bundles[group.request.id, bundle.index] = place
        node.count_stuck(bundle.allocation.amounts, 1)
        self.on_free(node)

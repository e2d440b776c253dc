"""The places of a `Ledger` where a request may go, and its order of preference among them.

The functions that return many places look at all nodes and sort them: they implement what `kernel_spec.placement`
specifies, for schedulers that see few nodes. Other schedulers find the first place of that order by an index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel_spec.holdings import BundlePlace, Group, NodePlace, Place
from kernel_spec.ids import NodeId
from kernel_spec.ledger import Ledger
from kernel_spec.packing import Misfit, pack
from kernel_spec.placement import PACK_BELOW, Placement, all_hold, has_devices, placement_of
from kernel_spec.resources import Amounts
from kernel_spec.scheduling import SPREAD, STRICT_SPREAD, Bundle, GroupRequest, LeaseRequest, PlaceGroup


def places_for(ledger: Ledger, request: LeaseRequest) -> Sequence[Place]:
    """Return the open places where a request may go, best first."""
    if request.group is not None:
        return bundles_for(ledger, request)
    placement = placement_of(request.strategy)
    nodes = [node for node in open_nodes(ledger) if allows(ledger, placement, request.wanted, node)]
    return sorted(nodes, key=lambda node: rank(request, placement, node))


def bundles_for(ledger: Ledger, request: LeaseRequest) -> Sequence[BundlePlace]:
    """Return the open bundles where a request may go; the one with the least unwanted resources comes first."""
    group = ledger.groups.get(request.group) if request.group is not None else None
    if group is None:
        return ()
    if request.bundle >= 0:
        found = group.bundles.get(request.bundle)
        return (found,) if found is not None and ledger.is_open(found) else ()
    places = [place for place in group.bundles.values() if ledger.is_open(place)]
    return places if len(places) < 2 else sorted(places, key=lambda place: waste(place, request.wanted))


def waste(place: BundlePlace, wanted: Amounts) -> tuple[bool, int, int, int]:
    """Return a sort key: how much of a bundle a request would leave idle, where devices count most."""
    free = {name: units for name, units in place.pool.available.items() if units > 0}
    others = free.keys() - wanted.keys()
    return not others.isdisjoint(place.pool.device_resources), len(others), sum(free.values()), place.bundle.index


def place_group(ledger: Ledger, group: Group) -> PlaceGroup | Misfit:
    """Place all waiting bundles of a group, or none and return why; nodes with unwanted devices come last."""
    nodes = nodes_for_group(ledger, group.request)
    names = {name for wanted in group.request.bundles for name in wanted}
    plain = [node for node in nodes if not wasteful(node, names)]
    beside = [place.node for place in group.bundles.values()]

    def attempt(choice: Sequence[NodePlace]) -> tuple[Bundle, ...] | Misfit:
        pools = {node.node: node.pool for node in choice}
        return pack(group.waiting(), group.request.strategy, pools, beside, right_nodes(ledger, group))

    packed = attempt(plain)
    if isinstance(packed, Misfit) and len(plain) < len(nodes):
        packed = attempt(nodes)
    return packed if isinstance(packed, Misfit) else ledger.place_group(group, packed)


def right_nodes(ledger: Ledger, group: Group) -> Callable[[int, NodeId], bool] | None:
    """Return a function of bundle number and node that says whether the bundle may go there; None if all may."""
    if not any(group.request.labels):
        return None
    wanted = {number: group.labels_of(number) for number in group.waiting()}
    return lambda number, node: all_hold(wanted[number], ledger.nodes[node].labels)


def nodes_for_group(ledger: Ledger, group: GroupRequest) -> Sequence[NodePlace]:
    """Return the open nodes in a group's order of preference: nodes with unwanted devices come last."""
    spread = group.strategy in (SPREAD, STRICT_SPREAD)
    wanted = {name for bundle in group.bundles for name in bundle}

    def order(node: NodePlace) -> tuple[bool, bool, float, int]:
        return wasteful(node, wanted), node.node != group.origin, node.load() if spread else 0.0, node.number

    return sorted(open_nodes(ledger), key=order)


def open_nodes(ledger: Ledger) -> list[NodePlace]:
    """Return the nodes that accept new leases, in the order in which they were added."""
    return [node for node in ledger.nodes.values() if not node.draining]


def allows(ledger: Ledger, placement: Placement, wanted: Amounts, node: NodePlace) -> bool:
    """Return whether a strategy allows a request for `wanted` on an open `node`."""
    if placement.node is not None:
        target = affine_node(ledger, placement, wanted)
        if target is not None or not placement.soft:
            return node is target and placement.suits(node.labels)
    return placement.suits(node.labels)


def affine_node(ledger: Ledger, placement: Placement, wanted: Amounts) -> NodePlace | None:
    """Return the node of an affinity; None if it is unknown, or if it can't be used and the affinity is soft."""
    node = ledger.nodes.get(placement.node) if placement.node is not None else None
    if node is not None and placement.soft:
        useless = node.draining or not node.pool.fits_ever(wanted) or not placement.suits(node.labels)
        return None if useless else node
    return node


def rank(request: LeaseRequest, placement: Placement, node: NodePlace) -> tuple[Any, ...]:
    """Return a key that sorts allowed nodes, best first."""
    full, choice = node.load(), placement.choice(node.labels)
    if placement.spread:
        return choice, full, node.number
    wished = all_hold(placement.wishes, node.labels)
    near = request.locality.get(node.node, 0)
    at_home = node.node == request.origin and full < PACK_BELOW
    return choice, not wished, -near, not at_home, wasteful(node, request.wanted), max(full, PACK_BELOW), node.number


def wasteful(node: NodePlace, wanted: Mapping[str, int] | set[str]) -> bool:
    """Return whether a node has devices that are not wanted."""
    return has_devices(node.pool) and node.pool.device_resources.isdisjoint(wanted)

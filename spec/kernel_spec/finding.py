"""Find the places where a request fits by the indexes of an `IndexedLedger`, without looking at all nodes.

The results are those of `kernel_spec.choosing`, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from kernel_spec.choosing import affine_node, bundles_for, wasteful
from kernel_spec.holdings import Group, NodePlace, Place
from kernel_spec.ids import NodeId
from kernel_spec.node_index import IndexedLedger
from kernel_spec.packing import total_of
from kernel_spec.placement import PACK_BELOW, Condition, Placement, all_hold
from kernel_spec.resources import Amounts, ResourcePool
from kernel_spec.scheduling import SPREAD, STRICT_PACK, STRICT_SPREAD, LeaseRequest

NODES_COMPARED = 64
"""Minimum number of nodes that are considered for a group, if there are so many."""


# -- leases ------------------------------------------------------------------------------------------------------------


def places_with_room(ledger: IndexedLedger, request: LeaseRequest, placement: Placement) -> Iterable[Place]:
    """Return the open places where a request may go and seems to fit, best first. The ledger must not change meanwhile.

    `placement` is the request's parsed strategy. Only `acquire` decides whether the request fits on devices.
    """
    bound = bound_places(ledger, request, placement)
    if bound is not None:
        return bound
    if placement.choices or placement.wishes:
        return _in_order(ledger, request, placement)
    if placement.spread:
        return ledger.free.search(request.wanted, placement.hard, 0.0, False)
    return _hybrid(ledger, request, placement.hard)


def places_ever(ledger: IndexedLedger, request: LeaseRequest, placement: Placement) -> Iterable[Place]:
    """Return the open places where a request may go and could fit once leases have ended, the least full first."""
    bound = bound_places(ledger, request, placement)
    if bound is not None:
        return bound
    alternatives = placement.alternatives()
    if len(alternatives) == 1:
        return ledger.could.search(request.wanted, alternatives[0], 0.0, False)
    found = (ledger.could.search(request.wanted, conditions, 0.0, False) for conditions in alternatives)
    return {id(node): node for nodes in found for node in nodes}.values()


def bound_places(ledger: IndexedLedger, request: LeaseRequest, placement: Placement) -> Sequence[Place] | None:
    """Return the places of a request that is bound to a node or group; None for other requests."""
    if request.group is not None:
        return bundles_for(ledger, request)
    if placement.problem:
        return ()
    if placement.node is None:
        return None
    target = affine_node(ledger, placement, request.wanted)
    if target is None:
        return None if placement.soft else ()
    return () if target.draining or not placement.suits(target.labels) else (target,)


def _in_order(ledger: IndexedLedger, request: LeaseRequest, placement: Placement) -> Iterator[Place]:
    """Yield places by choice, and within a choice those that fulfil the wishes first; a place may come twice."""
    for conditions in placement.alternatives():
        if placement.spread:
            yield from ledger.free.search(request.wanted, conditions, 0.0, False)
            continue
        if placement.wishes:
            yield from _hybrid(ledger, request, (*conditions, *placement.wishes))
        yield from _hybrid(ledger, request, conditions)


def _hybrid(ledger: IndexedLedger, request: LeaseRequest, conditions: Sequence[Condition]) -> Iterator[Place]:
    nodes = ledger.nodes
    if request.locality:
        near = sorted(request.locality.items(), key=lambda item: -item[1])
        for id, count in near:
            node = nodes.get(id)
            if count and node is not None and not node.draining and all_hold(conditions, node.labels):
                yield node
    home = nodes.get(request.origin)
    if home is not None and not home.draining and home.load() < PACK_BELOW and all_hold(conditions, home.labels):
        yield home
    yield from ledger.search(request.wanted, conditions, PACK_BELOW)


# -- groups ------------------------------------------------------------------------------------------------------------


def choices_for_group(
    ledger: IndexedLedger, group: Group, usable: Callable[[NodePlace], bool]
) -> Iterator[dict[NodeId, ResourcePool]]:
    """Yield sets of nodes to try for a group's waiting bundles: first without unneeded devices, then with all.

    Only `usable` nodes are included. The ledger must not change during the iteration.
    """
    names = {name for wanted in group.request.bundles for name in wanted}
    if ledger.spares_devices(dict.fromkeys(names, 0)):
        yield _candidates(ledger, group, names, usable, plain=True)
    yield _candidates(ledger, group, names, usable, plain=False)


def distinct(bundles: Mapping[int, Amounts]) -> list[Amounts]:
    """Return each kind of bundle once."""
    return list({frozenset(wanted.items()): wanted for wanted in bundles.values()}.values())


def kinds_of_bundles(group: Group) -> list[tuple[Amounts, tuple[Condition, ...]]]:
    """Return each kind of waiting bundle once, with the conditions on its node's labels."""
    waiting = group.waiting()
    if not any(group.request.labels):
        return [(wanted, ()) for wanted in distinct(waiting)]
    kinds = {(frozenset(wanted.items()), group.labels_of(number)): wanted for number, wanted in waiting.items()}
    return [(wanted, labels) for (_, labels), wanted in kinds.items()]


def _candidates(
    ledger: IndexedLedger, group: Group, names: set[str], usable: Callable[[NodePlace], bool], plain: bool
) -> dict[NodeId, ResourcePool]:
    """Return nodes such that when the group fits anywhere, it fits there.

    That takes as many for each kind of bundle as there are bundles, because each could have one of its own. To fit many
    on few, there are also those that take all of them, half of them, a quarter, and so on.
    """
    waiting, strategy = group.waiting(), group.request.strategy
    found: dict[NodeId, ResourcePool] = {}

    def add(wanted: Amounts, count: int, labels: tuple[Condition, ...] = ()) -> None:
        able = (node for node in ledger.free.search(wanted, labels, 0.0, plain) if usable(node))
        found.update((node.node, node.pool) for node in islice(able, count))

    for id in (group.request.origin, *(place.node for place in group.bundles.values())):
        node = ledger.nodes.get(id)
        if node is not None and not node.draining and usable(node) and not (plain and wasteful(node, names)):
            found[id] = node.pool
    bundles = list(waiting.values())
    if strategy == STRICT_PACK:
        labels = {condition: None for _, conditions in kinds_of_bundles(group) for condition in conditions}
        add(total_of(bundles), NODES_COMPARED, tuple(labels))
        return found
    size = len(bundles) if strategy not in (SPREAD, STRICT_SPREAD) else 1
    while size > 1:
        add(total_of(bundles[:size]), -(-len(bundles) // size))
        size //= 2
    for wanted, conditions in kinds_of_bundles(group):
        add(wanted, len(bundles), conditions)
    return found

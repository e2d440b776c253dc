"""Turn nodes, machines that start and orders into bins: what is free on them, and what they are when empty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kernel_autoscaler.core.bins import Bin
from kernel_autoscaler.core.kinds import Kind
from kernel_autoscaler.core.machines import STARTING, Machines
from kernel_autoscaler.core.snapshot import ALIVE, NodeView
from kernel_spec.dataclass import dataclass
from kernel_spec.labels import NODE_ID_LABEL, PROVIDER_ID_LABEL
from kernel_spec.resources import Amounts

_OF_ONE_NODE = (NODE_ID_LABEL, PROVIDER_ID_LABEL)
"""Labels that no two nodes share: with them no two nodes would be equal, and no other node has them."""


@dataclass(slots=True)
class Supply:
    """Bins of what is free on nodes that stay or come (`free`), on those that are `leaving`, and of all when empty."""

    free: list[Bin]
    leaving: list[Bin]
    whole: list[Bin]


def supply_of(
    nodes: Iterable[NodeView],
    removable: Mapping[str, bool],
    leaving: Iterable[str],
    machines: Machines,
    kinds: Mapping[str, Kind],
) -> Supply:
    """Return what there is, the nodes that are sure to stay first.

    `removable` has the nodes that might be drained, and whether each is idle: so these are filled last. `leaving` are
    the draining nodes that may be kept.
    """
    may_stay = set(leaving)
    there, going = [], []
    for node in nodes:
        if node.id in may_stay:
            going.append(node)
        elif node.state == ALIVE:
            there.append(node)
    there.sort(key=lambda node: (removable.get(node.id, False), node.id in removable, len(node.total)))
    coming = _coming(machines, kinds)
    return Supply(
        free=[*_bins((node, node.available) for node in there), *coming],
        leaving=_bins((node, node.available) for node in going),
        whole=[*_bins((node, node.total) for node in (*there, *going)), *(bin.copy() for bin in coming)],
    )


def _bins(nodes: Iterable[tuple[NodeView, Amounts]]) -> list[Bin]:
    """Return a bin for all nodes that are equal, in the order of the first of them."""
    members: dict[Any, list[str]] = {}
    shown: dict[Any, tuple[NodeView, Amounts]] = {}
    for node, free in nodes:
        shared = sorted(item for item in node.labels.items() if item[0] not in _OF_ONE_NODE)
        key = tuple(sorted(free.items())), tuple(shared)
        members.setdefault(key, []).append(node.id)
        shown.setdefault(key, (node, free))
    found = []
    for key, ids in members.items():
        node, free = shown[key]
        labels = {name: value for name, value in node.labels.items() if name not in _OF_ONE_NODE}
        found.append(Bin(dict(free), labels, len(ids), tuple(ids)))
    return found


def _coming(machines: Machines, kinds: Mapping[str, Kind]) -> list[Bin]:
    """Return bins of machines that start or were ordered: they are not bought a second time."""
    counts: dict[str, int] = {}
    for machine in machines.machines.values():
        if machine.state == STARTING:
            counts[machine.kind] = counts.get(machine.kind, 0) + 1
    for order in machines.orders.values():
        counts[order.kind] = counts.get(order.kind, 0) + order.count
    return [
        Bin(dict(kinds[name].resources), kinds[name].labels, count, kind=name)
        for name, count in counts.items()
        if name in kinds
    ]

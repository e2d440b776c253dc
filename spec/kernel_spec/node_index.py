"""A ledger with two indexes of nodes: by free resources, and by resources that leases may release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from kernel_spec.holdings import NodePlace
from kernel_spec.ids import NodeId
from kernel_spec.labels import NODE_ID_LABEL
from kernel_spec.ledger import Ledger
from kernel_spec.node_parts import NodePart, NodeParts
from kernel_spec.node_tree import Needs, NodeTree
from kernel_spec.placement import Condition, all_hold, has_devices
from kernel_spec.resources import Amounts

MOST_ALTERNATIVES = 16
"""Maximum number of alternatives that are looked up in the index; with more, nodes are checked one by one."""

_PLAIN = "\0plain"


class NodeIndex:
    """Finds nodes by amounts of resources, which `amounts_of(node)` returns, and by labels."""

    def __init__(self, amounts_of: Callable[[NodePlace], Amounts]) -> None:
        self._amounts_of = amounts_of
        self._all = NodePart(amounts_of)
        self._parts = NodeParts(self._all.tree, amounts_of)

    def put(self, node: NodePlace) -> None:
        """Record a node that was added, is draining, or has new totals or labels."""
        if node.draining:
            self.forget(node)
        else:
            is_new = node.node not in self._all.tree
            self._all.put(node, _labels_of(node))
            self._parts.put(node, _plainness_of(node), is_new)

    def note(self, node: NodePlace) -> None:
        """Record a change of a node's amounts."""
        self._all.note(node)
        self._parts.note(node)

    def forget(self, node: NodePlace) -> None:
        """Remove a node that accepts no new leases."""
        self._all.forget(node)
        self._parts.forget(node)

    def search(
        self, wanted: Amounts, conditions: Sequence[Condition], floor: float, plain: bool
    ) -> Iterator[NodePlace]:
        """Yield open nodes that have `wanted` and match the conditions, the least loaded first.

        Nodes with a load below `floor` count as equal. With `plain` only nodes without devices are searched.
        """
        needs = tuple((name, units) for name, units in wanted.items() if units)
        if plain:
            needs = (*needs, (_PLAIN, 1))
        if not conditions:
            return self._all.caught_up().search((needs,), floor)
        if (ids := self._parts.ids(conditions)) is not None:
            found = self._all.caught_up().among(ids, needs, floor)
        elif (part := self._parts.find(tuple(conditions), _plainness_of)) is not None:
            return part.search((needs,), floor)
        else:
            ways = [(*needs, *labels) for labels in _label_needs(conditions)]
            found = self._all.caught_up().search(ways, floor)
        return (node for node in found if all_hold(conditions, node.labels))

    def sums(self) -> Amounts:
        """Return the sums of all nodes' amounts."""
        return self._all.caught_up().sums

    def check(self, nodes: Mapping[NodeId, NodePlace]) -> None:
        """Raise AssertionError when a tree does not agree with the nodes."""
        for id, node in nodes.items():
            self._check(self._all.caught_up(), id, {} if node.draining else self._amounts_of(node) | _labels_of(node))
            for conditions, tree in self._parts.trees():
                holds = not node.draining and all_hold(conditions, node.labels)
                self._check(tree, id, self._amounts_of(node) | _plainness_of(node) if holds else {})

    def _check(self, tree: NodeTree, id: NodeId, there: Mapping[str, int]) -> None:
        known = tree.amounts_of(id)
        right = {name: units for name, units in there.items() if units > 0}
        assert known == right, f"the index believes that node {id.hex()} has {known}, it has {right}"


class IndexedLedger(Ledger):
    """A ledger that finds nodes by indexes of resources that are `free`, or that `could` be when leases have ended."""

    def __init__(self) -> None:
        super().__init__()
        self.free = NodeIndex(lambda node: node.pool.available)
        self.could = NodeIndex(could_free_amounts)
        self._devices: dict[NodeId, frozenset[str]] = {}
        self._device_kinds: Counter[frozenset[str]] = Counter()

    def on_node(self, node: NodePlace) -> None:
        """Record the totals and labels of a node."""
        here = self.nodes.get(node.node) is node
        self._device_kinds -= Counter([self._devices.pop(node.node)] if node.node in self._devices else ())
        if here and has_devices(node.pool):
            kind = self._devices[node.node] = node.pool.device_resources
            self._device_kinds[kind] += 1
        for index in (self.free, self.could):
            if here:
                index.put(node)
            else:
                index.forget(node)

    def on_free(self, node: NodePlace) -> None:
        """Record that resources were taken or given back."""
        if not node.draining:
            self.free.note(node)
            self.could.note(node)

    def search(self, wanted: Amounts, conditions: Sequence[Condition] = (), floor: float = 0.0) -> Iterator[NodePlace]:
        """Yield open nodes that have `wanted` free, best first; nodes with unwanted devices come last."""
        if self.spares_devices(wanted):
            yield from self.free.search(wanted, conditions, floor, True)
        yield from self.free.search(wanted, conditions, floor, False)

    def spares_devices(self, wanted: Amounts) -> bool:
        """Return whether some node has devices, and `wanted` includes none."""
        kinds = self._device_kinds
        return bool(kinds) and all(kind.isdisjoint(wanted) for kind in kinds)


def could_free_amounts(node: NodePlace) -> Amounts:
    """Return the resources that a node would have free when every lease that may end on its own has ended."""
    stuck = node.stuck
    return {name: units - stuck.get(name, 0) for name, units in node.pool.total.items()}


def _labels_of(node: NodePlace) -> Amounts:
    """Return a node's labels, and whether it is plain, as amounts of resources."""
    there = _plainness_of(node)
    for label, value in node.labels.items():
        if label == NODE_ID_LABEL:  # each node has its own, by which it is looked up
            continue
        there[f"\0{label}"] = there[f"\0{label}={value}"] = 1
    return there


def _plainness_of(node: NodePlace) -> Amounts:
    """Return whether a node has no devices, as an amount of a resource."""
    return {} if has_devices(node.pool) else {_PLAIN: 1}


def _label_needs(conditions: Sequence[Condition]) -> list[Needs]:
    """Return the labels that conditions need, as alternatives; conditions that can't be looked up are left out."""
    ways: list[Needs] = [()]
    for condition in conditions:
        if condition.label == NODE_ID_LABEL:
            continue
        label = f"\0{condition.label}"
        if condition.among is not None and len(ways) * len(condition.among) <= MOST_ALTERNATIVES:
            values = sorted(condition.among)
            ways = [(*way, (f"{label}={value}", 1)) for way in ways for value in values]
        elif condition.among is not None or condition.exists:
            ways = [(*way, (label, 1)) for way in ways]
    return ways

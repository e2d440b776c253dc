"""Subsets of the nodes by conditions on labels, each in a tree of its own.

If labels were amounts in the tree of all nodes, a search would enter branches where one node has the label and another
one the room. In a tree of only the nodes with the label, everything below a branch can be taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from kernel_spec.holdings import NodePlace
from kernel_spec.ids import NodeId
from kernel_spec.labels import NODE_ID_LABEL
from kernel_spec.node_tree import NodeTree
from kernel_spec.placement import Condition, all_hold
from kernel_spec.resources import Amounts

MOST_PARTS = 32
"""Maximum number of parts: each takes memory for its nodes, and has to be updated when one of them changes."""
IDLE_SEARCHES = 1000
"""Number of searches after which an unused part may be replaced."""


class NodePart:
    """A tree of nodes. Changes of amounts are collected, and applied at the next search."""

    def __init__(self, amounts_of: Callable[[NodePlace], Mapping[str, int]]) -> None:
        self.tree = NodeTree()
        self.asked_at = 0
        self._amounts_of = amounts_of
        self._changed: dict[NodePlace, None] = {}

    def put(self, node: NodePlace, more: Mapping[str, int]) -> None:
        """Record a node, with the amounts `more` that do not change."""
        self.tree.put(node, {**self._amounts_of(node), **more}, node.load())

    def fill(self, nodes: Sequence[NodePlace], more_of: Callable[[NodePlace], Mapping[str, int]]) -> None:
        """Replace the content by these nodes."""
        amounts_of = self._amounts_of
        self.tree.fill([(node, {**amounts_of(node), **more_of(node)}, node.load()) for node in nodes])

    def note(self, node: NodePlace) -> None:
        """Record a change of a node's amounts, if the node is in this part."""
        if node.node in self.tree:
            self._changed[node] = None

    def forget(self, node: NodePlace) -> None:
        """Remove a node, if it is in this part."""
        self._changed.pop(node, None)
        self.tree.remove(node.node)

    def caught_up(self) -> NodeTree:
        """Apply the collected changes and return the tree."""
        for node in self._changed:
            self.tree.update(node.node, self._amounts_of(node), node.load())
        self._changed.clear()
        return self.tree


class NodeParts:
    """The parts that were searched lately, of the nodes in `everything`."""

    def __init__(self, everything: NodeTree, amounts_of: Callable[[NodePlace], Mapping[str, int]]) -> None:
        self._everything = everything
        self._amounts_of = amounts_of
        self._parts: dict[tuple[Condition, ...], NodePart] = {}
        self._parts_of: dict[NodeId, list[NodePart]] = {}
        self._searches = 0
        self._ids: dict[str, dict[NodeId, None]] = {}
        """Nodes by the label with their id: nearly always one for each."""
        self._label_of: dict[NodeId, str] = {}

    def put(self, node: NodePlace, more: Amounts, is_new: bool) -> None:
        """Record a node that was added, or has new totals or labels."""
        self._set_label(node.node, node.labels.get(NODE_ID_LABEL))
        for conditions, part in list(self._parts.items()):
            holds = all_hold(conditions, node.labels)
            if not is_new and holds != (node.node in part.tree):
                self._drop(conditions)  # the node would come last instead of in its order: rebuild the part later
            elif holds:
                self._put(part, node, more)

    def note(self, node: NodePlace) -> None:
        """Note that a node has more or less of something."""
        for part in self._parts_of.get(node.node, ()):
            part.note(node)

    def forget(self, node: NodePlace) -> None:
        """Remove a node."""
        self._set_label(node.node, None)
        for part in self._parts_of.pop(node.node, ()):
            part.forget(node)

    def ids(self, conditions: Sequence[Condition]) -> Sequence[NodeId] | None:
        """Return the nodes that conditions name by their ids; None if they name no ids."""
        for condition in conditions:
            if condition.label == NODE_ID_LABEL and condition.among is not None:
                return [id for value in condition.among for id in self._ids.get(value, ())]
        return None

    def find(
        self, conditions: tuple[Condition, ...], more_of: Callable[[NodePlace], Mapping[str, int]]
    ) -> NodeTree | None:
        """Return the tree of the nodes that match the conditions; None if there are too many other parts."""
        self._searches += 1
        part = self._parts.get(conditions)
        if part is None:
            if len(self._parts) >= MOST_PARTS and not self._make_room():
                return None
            part = self._parts[conditions] = NodePart(self._amounts_of)
            part.fill([node for node in self._everything if all_hold(conditions, node.labels)], more_of)
            for node in part.tree:
                self._parts_of.setdefault(node.node, []).append(part)
        part.asked_at = self._searches
        return part.caught_up()

    def trees(self) -> Iterator[tuple[tuple[Condition, ...], NodeTree]]:
        """Yield the conditions and the tree of each part."""
        for conditions, part in self._parts.items():
            yield conditions, part.caught_up()

    def _make_room(self) -> bool:
        oldest = min(self._parts, key=lambda conditions: self._parts[conditions].asked_at)
        if self._searches - self._parts[oldest].asked_at < IDLE_SEARCHES:
            return False
        self._drop(oldest)
        return True

    def _put(self, part: NodePart, node: NodePlace, more: Mapping[str, int]) -> None:
        if node.node not in part.tree:
            self._parts_of.setdefault(node.node, []).append(part)
        part.put(node, more)

    def _drop(self, conditions: tuple[Condition, ...]) -> None:
        part = self._parts.pop(conditions)
        for node in part.tree:
            self._parts_of[node.node].remove(part)

    def _set_label(self, node: NodeId, label: str | None) -> None:
        before = self._label_of.pop(node, None)
        if before is not None:
            self._ids[before].pop(node, None)
            if not self._ids[before]:
                del self._ids[before]
        if label is not None:
            self._label_of[node] = label
            self._ids.setdefault(label, {})[node] = None

"""A tree over all nodes in which each branch has the maximum of each resource below it.

A search for the best node enters only branches where the request could fit, however many nodes there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf

from kernel_spec.holdings import NodePlace
from kernel_spec.ids import NodeId
from kernel_spec.resources import Amounts

Needs = tuple[tuple[str, int], ...]
"""Required amounts, as pairs of name and units."""


class NodeTree:
    """Nodes in the order they were added, each with amounts and a load. Adding, changing and finding is logarithmic.

    The layout is that of a binary heap: branch `n` has the branches `2n` and `2n + 1`, and the leaves are the last
    half. `sums` has the sums of all nodes' amounts.
    """

    def __init__(self) -> None:
        self.sums: Amounts = {}
        self._leaves: dict[NodeId, int] = {}
        self._nodes: list[NodePlace | None] = []
        self._reset(1)

    def put(self, node: NodePlace, amounts: Mapping[str, int], load: float) -> None:
        """Add a node, or replace all of its amounts."""
        leaf = self._leaves.get(node.node)
        if leaf is None:
            leaf = self._new_leaf(node)
        for name in self._most[leaf].keys() - amounts.keys():
            self._set_amount(leaf, name, 0)
        self._update(leaf, amounts, load)

    def fill(self, nodes: Sequence[tuple[NodePlace, Mapping[str, int], float]]) -> None:
        """Replace the content by these nodes with their amounts and loads, faster than by `put` for each."""
        self._reset(max(4, 1 << (2 * len(nodes)).bit_length()))
        most, least, sums = self._most, self._least, self.sums
        for leaf, (node, amounts, load) in enumerate(nodes, self._size):
            self._nodes.append(node)
            self._leaves[node.node] = leaf
            least[leaf] = load
            there = most[leaf] = {name: units for name, units in amounts.items() if units > 0}
            for name, units in there.items():
                sums[name] = sums.get(name, 0) + units
        last = self._size + len(nodes) - 1
        while last > 1:
            first, last = self._size >> (self._size.bit_length() - last.bit_length() + 1), last >> 1
            for at in range(first, last + 1):
                left, right = most[at + at], most[at + at + 1]
                there = most[at] = dict(left)
                for name, units in right.items():
                    if units > there.get(name, 0):
                        there[name] = units
                least[at] = min(least[at + at], least[at + at + 1])

    def update(self, id: NodeId, amounts: Mapping[str, int], load: float) -> None:
        """Change some of a node's amounts, and its load."""
        self._update(self._leaves[id], amounts, load)

    def remove(self, id: NodeId) -> None:
        """Remove a node; unknown ones are ignored."""
        leaf = self._leaves.pop(id, None)
        if leaf is None:
            return
        for name in list(self._most[leaf]):
            self._set_amount(leaf, name, 0)
        self._set_load(leaf, inf)
        self._nodes[leaf - self._size] = None

    def search(self, alternatives: Sequence[Needs], floor: float) -> Iterator[NodePlace]:
        """Yield the nodes that fulfil all needs of one of `alternatives`, the least loaded first.

        Nodes with a load below `floor` count as equal; equals come in the order in which they were put. The tree must
        not change meanwhile.
        """
        most, least, size = self._most, self._least, self._size
        # By load, then by the first leaf below: so equal nodes are visited from the left, one after the other.
        branches = [
            (max(least[1], floor), 0, 1, needs)
            for needs in alternatives
            if least[1] < inf and all(most[1].get(name, 0) >= units for name, units in needs)
        ]
        heapq.heapify(branches)
        while branches:
            load, first, at, needs = heapq.heappop(branches)
            if at >= size:
                node = self._nodes[at - size]
                assert node is not None
                yield node
                continue
            for branch in (at + at, at + at + 1):
                if branch & 1:
                    first += size >> at.bit_length()
                load = least[branch]
                if load == inf:
                    continue
                there = most[branch]
                for name, units in needs:
                    if there.get(name, 0) < units:
                        break
                else:
                    heapq.heappush(branches, (load if load > floor else floor, first, branch, needs))

    def among(self, ids: Iterable[NodeId], needs: Needs, floor: float) -> Iterator[NodePlace]:
        """Yield those of the nodes `ids` that fulfil `needs`, in the order of `search`. Unknown ones are ignored."""
        leaves = [self._leaves[id] for id in ids if id in self._leaves]
        able = [leaf for leaf in leaves if all(self._most[leaf].get(name, 0) >= units for name, units in needs)]
        for leaf in sorted(able, key=lambda leaf: (max(self._least[leaf], floor), leaf)):
            node = self._nodes[leaf - self._size]
            assert node is not None
            yield node

    def __contains__(self, id: object) -> bool:
        return id in self._leaves

    def amounts_of(self, id: NodeId) -> Mapping[str, int]:
        """Return the amounts that are recorded for a node; an empty mapping for an unknown one."""
        leaf = self._leaves.get(id)
        return {} if leaf is None else self._most[leaf]

    def _update(self, leaf: int, amounts: Mapping[str, int], load: float) -> None:
        known = self._most[leaf]
        for name, units in amounts.items():
            if known.get(name, 0) != units and (units > 0 or name in known):
                self._set_amount(leaf, name, max(units, 0))
        if self._least[leaf] != load:
            self._set_load(leaf, load)

    def _set_amount(self, at: int, name: str, units: int) -> None:
        most = self._most
        self.sums[name] = self.sums.get(name, 0) + units - most[at].get(name, 0)
        while most[at].get(name, 0) != units:
            if units:
                most[at][name] = units
            else:
                del most[at][name]
            if at == 1:
                return
            units = max(units, most[at ^ 1].get(name, 0))
            at >>= 1

    def _set_load(self, at: int, load: float) -> None:
        least = self._least
        while least[at] != load:
            least[at] = load
            if at == 1:
                return
            load = min(load, least[at ^ 1])
            at >>= 1

    def _new_leaf(self, node: NodePlace) -> int:
        if len(self._nodes) == self._size:
            self._grow()
        self._nodes.append(node)
        leaf = self._leaves[node.node] = self._size + len(self._nodes) - 1
        return leaf

    def _grow(self) -> None:
        """Make room for twice as many nodes as there are, and drop the leaves of removed ones."""
        leaves = ((node, self._leaves[node.node]) for node in self)
        self.fill([(node, self._most[leaf], self._least[leaf]) for node, leaf in leaves])

    def __iter__(self) -> Iterator[NodePlace]:
        return (node for node in self._nodes if node is not None)

    def _reset(self, size: int) -> None:
        self._size = size
        self._most: list[Amounts] = [{} for _ in range(2 * size)]
        self._least: list[float] = [inf] * (2 * size)
        self._leaves.clear()
        self._nodes = []
        self.sums.clear()

"""Know since when each node holds nothing. A pure state machine over what the scheduler is told and answers.

A node is in use while a lease or a bundle of a placement group is on it. Only what is granted *there* counts: requests
that wait, or that go elsewhere, change nothing. What else keeps a node in use (a program that runs there, objects that
other nodes need) is reported by `used`, whenever it is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any

from kernel_spec import scheduling as contract
from kernel_spec.dataclass import dataclass
from kernel_spec.ids import GroupId, LeaseId, NodeId


@dataclass(slots=True, eq=False)
class _Node:
    """Holds what is on one node. `since` is when it was last in use, or joined, in seconds on the caller's clock."""

    since: float
    leases: set[LeaseId] = field(default_factory=set)
    bundles: set[tuple[GroupId, int]] = field(default_factory=set)


class IdleNodes:
    """Tracks leases and bundles by node. Must see all events of the scheduler, grants and placed groups."""

    def __init__(self) -> None:
        self._nodes: dict[NodeId, _Node] = {}
        self._node_of: dict[LeaseId, NodeId] = {}
        self._bundles: dict[GroupId, list[tuple[NodeId, int]]] = {}
        self._handlers: dict[type, Callable[[Any, float], None]] = {
            contract.NodeAdded: self._add,
            contract.NodeRemoved: lambda event, now: self._remove(event.node),
            contract.Grant: lambda step, now: self._take(step),
            contract.LeaseHeld: lambda event, now: self._take(event.grant),
            contract.LeaseReleased: lambda event, now: self._release(event.id, now),
            contract.PlaceGroup: lambda step, now: self._place(step.id, step.bundles),
            contract.GroupHeld: lambda event, now: self._place(event.request.id, event.bundles),
            contract.GroupRemoved: lambda event, now: self._dissolve(event.id, now),
        }

    def see(self, word: contract.Event | contract.Instruction, now: float) -> None:
        """Take in an event, or an instruction that is carried out."""
        handler = self._handlers.get(type(word))
        if handler is not None:
            handler(word, now)

    def used(self, node: NodeId, now: float) -> None:
        """Note that something else than a lease or a bundle is on the node at this moment."""
        if node in self._nodes:
            self._nodes[node].since = now

    def since(self, node: NodeId) -> float | None:
        """Return since when the node holds neither leases nor bundles; None while it does, or is not there."""
        known = self._nodes.get(node)
        return None if known is None or known.leases or known.bundles else known.since

    def _add(self, event: contract.NodeAdded, now: float) -> None:
        if event.node not in self._nodes:
            self._nodes[event.node] = _Node(now)

    def _take(self, grant: contract.Grant) -> None:
        node = self._nodes.get(grant.node)
        if node is not None:
            node.leases.add(grant.id)
            self._node_of[grant.id] = grant.node

    def _release(self, lease: LeaseId, now: float) -> None:
        node = self._nodes.get(self._node_of.pop(lease, NodeId(b"")))
        if node is not None:
            node.leases.discard(lease)
            node.since = now

    def _place(self, group: GroupId, bundles: Iterable[contract.Bundle]) -> None:
        for bundle in bundles:
            node = self._nodes.get(bundle.node)
            if node is not None:
                node.bundles.add((group, bundle.index))
                self._bundles.setdefault(group, []).append((bundle.node, bundle.index))

    def _dissolve(self, group: GroupId, now: float) -> None:
        for id, index in self._bundles.pop(group, ()):
            node = self._nodes.get(id)
            if node is not None:
                node.bundles.discard((group, index))
                node.since = now

    def _remove(self, id: NodeId) -> None:
        node = self._nodes.pop(id, None)
        if node is None:
            return
        for lease in node.leases:
            self._node_of.pop(lease, None)
        for group, index in node.bundles:
            self._bundles[group].remove((id, index))
            if not self._bundles[group]:
                del self._bundles[group]

    def validate(self) -> None:
        """Raise AssertionError unless both directions of the books agree."""
        leases = {lease: id for id, node in self._nodes.items() for lease in node.leases}
        assert leases == self._node_of, f"leases on nodes {leases}, nodes of leases {self._node_of}"
        bundles = {(id, *bundle) for id, node in self._nodes.items() for bundle in node.bundles}
        placed = {(id, group, index) for group, places in self._bundles.items() for id, index in places}
        assert bundles == placed, f"bundles on nodes {bundles}, of groups {placed}"

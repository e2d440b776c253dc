"""The nodes of a simulated cluster: how they come, fail, come back, drain and change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from kernel_simulation.agenda import Agenda
from kernel_simulation.head import SimulatedHead
from kernel_simulation.load import DRAIN, FAIL, JOIN, RESTART_HEAD, SET_RESOURCE, Change, NodeKind
from kernel_simulation.measures import Integral
from kernel_spec.ids import NodeId
from kernel_spec.scheduling import NodeAdded

LOOK_SECONDS = 1.0
"""How often a draining node is looked at."""


class Cluster:
    """All nodes. Which of them something strikes is drawn with `dice`."""

    def __init__(self, kinds: Sequence[NodeKind], head: SimulatedHead, agenda: Agenda, dice: Random) -> None:
        self.capacity: dict[str, Integral] = {}
        """How much of each resource there is."""
        self.lost = 0
        """How many nodes failed or left."""
        self._kinds = {kind.kind: kind for kind in kinds}
        self._head = head
        self._agenda = agenda
        self._dice = dice
        self._kind_of: dict[NodeId, NodeKind] = {}
        self._alive: dict[str, list[NodeId]] = {kind.kind: [] for kind in kinds}
        self._born = 0
        self._act: Mapping[str, Callable[[Change], None]] = {
            FAIL: lambda change: self._strike(change, self._fail),
            DRAIN: lambda change: self._strike(change, lambda node: self._drain(node, change.seconds)),
            JOIN: self._join,
            SET_RESOURCE: self._set_resource,
            RESTART_HEAD: lambda change: head.restart(),
        }

    def begin(self, changes: Sequence[Change]) -> None:
        """Let all nodes join, and plan what will happen to them."""
        for kind in self._kinds.values():
            for _ in range(kind.count):
                self._add(kind)
            self._plan_failure(kind)
        for change in changes:
            self._agenda.at(change.at, self._act[change.action], change)

    def any_node(self, dice: Random) -> NodeId:
        """Return one of the nodes that are there, or an empty id."""
        alive = [nodes for nodes in self._alive.values() if nodes]
        if not alive:
            return NodeId(b"")
        number = dice.randrange(sum(map(len, alive)))
        for nodes in alive:
            if number < len(nodes):
                return nodes[number]
            number -= len(nodes)
        raise AssertionError("the number was drawn from fewer nodes than there are")

    @property
    def longest_absence(self) -> float:
        """After how many seconds a failed node is surely back, if it comes back at all."""
        return max(kind.back_after for kind in self._kinds.values())

    # -- one node --------------------------------------------------------------------------------------------------

    def join(self, kind: NodeKind) -> NodeId:
        """Let a node of this kind join, and return its id."""
        self._alive.setdefault(kind.kind, [])
        return self._add(kind)

    def drain(self, node: NodeId, seconds: float) -> None:
        """Let a node leave when it is empty, `seconds` later in any case."""
        if node in self._head.nodes and node not in self._head.draining:
            self._drain(node, seconds)

    def keep(self, node: NodeId) -> None:
        """Let a node that is to leave stay."""
        if node in self._head.draining:
            self._alive[self._kind_of[node].kind].append(node)
            self._head.cancel_drain(node)

    def end(self, node: NodeId) -> None:
        """Take a node away at once, if it is there."""
        self._remove(node)

    def _add(self, kind: NodeKind) -> NodeId:
        self._born += 1
        node = NodeId(b"node" + self._born.to_bytes(4, "big"))
        self._kind_of[node] = kind
        self._alive[kind.kind].append(node)
        self._count(kind.resources, 1)
        self._head.add_node(NodeAdded(node, kind.resources, kind.labels))
        return node

    def _remove(self, node: NodeId) -> None:
        if node not in self._head.nodes:
            return
        self.lost += 1
        self._count(self._head.nodes[node].total, -1)
        nodes = self._alive[self._kind_of.pop(node).kind]
        if node in nodes:
            nodes.remove(node)
        self._head.remove_node(node)

    def _count(self, resources: Mapping[str, float], sign: int) -> None:
        for name, quantity in resources.items():
            self.capacity.setdefault(name, Integral()).change(self._agenda.now, sign * quantity)

    # -- failures --------------------------------------------------------------------------------------------------

    def _plan_failure(self, kind: NodeKind) -> None:
        if kind.fails_every:
            mean = kind.fails_every / max(1, len(self._alive[kind.kind]))
            self._agenda.after(self._dice.expovariate(1 / mean), self._fail_some, kind, background=True)

    def _fail_some(self, kind: NodeKind) -> None:
        if self._alive[kind.kind]:
            self._fail(self._dice.choice(self._alive[kind.kind]))
        self._plan_failure(kind)

    def _fail(self, node: NodeId) -> None:
        kind = self._kind_of[node]
        self._remove(node)
        if kind.back_after:
            self._agenda.after(kind.back_after, self._add, kind, background=True)

    # -- changes ---------------------------------------------------------------------------------------------------

    def _strike(self, change: Change, act: Callable[[NodeId], None]) -> None:
        """Do something to some nodes, drawn from those of the kind that are there."""
        nodes = [node for kind, nodes in self._alive.items() if change.kind in ("", kind) for node in nodes]
        for node in self._dice.sample(nodes, min(change.count, len(nodes))):
            act(node)

    def _drain(self, node: NodeId, seconds: float) -> None:
        self._alive[self._kind_of[node].kind].remove(node)
        self._head.drain_node(node)
        self._leave(node, self._agenda.now + seconds)

    def _leave(self, node: NodeId, deadline: float) -> None:
        """Take a draining node away once it is empty, at `deadline` in any case."""
        if node not in self._head.draining:
            return  # It has gone, or stays after all.
        seconds = deadline - self._agenda.now
        if seconds <= 0 or not self._head.is_used(node):
            self._remove(node)
        else:
            self._agenda.after(min(LOOK_SECONDS, seconds), lambda _: self._leave(node, deadline), None)

    def _join(self, change: Change) -> None:
        kind = self._kinds[change.kind] if change.kind else next(iter(self._kinds.values()))
        for _ in range(change.count):
            self._add(kind)

    def _set_resource(self, change: Change) -> None:
        def set_on(node: NodeId) -> None:
            before = self._head.nodes[node].total.get(change.resource, 0.0)
            self._count({change.resource: change.quantity - before}, 1)
            self._head.set_resource(node, change.resource, change.quantity)

        self._strike(change, set_on)

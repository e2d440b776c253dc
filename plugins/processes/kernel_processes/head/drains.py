"""Draining nodes: a node's work ends, its objects are copied to other nodes, then it leaves.

A pure state machine: observations in, instructions out. A node leaves when nothing runs there and every object that
other nodes need has a copy elsewhere, or could not be copied; at the deadline it leaves in any case.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from kernel_spec.dataclass import dataclass
from kernel_spec.ids import LeaseId, NodeId, ObjectId

STORE_SECONDS = 0.5
"""Seconds between two looks into a node's store for objects that have no copy on another node."""


@dataclass(frozen=True, slots=True)
class AskBack:
    """Ask the holders of these leases to return them when the tasks that were sent have ended."""

    leases: tuple[LeaseId, ...]


@dataclass(frozen=True, slots=True)
class LookAtStore:
    """Ask for the objects in the node's store, and call `stored`."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class CopyObjects:
    """Have `target` copy these objects from the node, and call `copied`."""

    node: NodeId
    target: NodeId
    objects: tuple[ObjectId, ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """Tell the node to leave."""

    node: NodeId
    reason: str


Instruction = AskBack | LookAtStore | CopyObjects | Leave

DONE = "it was drained"
LATE = "it was drained, and its deadline has come"


@dataclass(slots=True)
class Drain:
    """Holds the state of one node that drains. Times are seconds on the caller's clock."""

    node: NodeId
    deadline: float | None
    looks_next: float
    asked: set[LeaseId] = field(default_factory=set)
    settled: set[ObjectId] = field(default_factory=set)
    """Objects that have a copy on another node, or could not be copied."""
    waits_for: int = 0
    """Number of answers that are outstanding: of the node about its store, or of nodes that copy."""
    leaving: bool = False


class DrainTable:
    """Holds every node that drains, and answers each observation with instructions."""

    def __init__(self) -> None:
        self.drains: dict[NodeId, Drain] = {}
        self._history: deque[str] = deque(maxlen=200)

    def begin(self, node: NodeId, deadline: float | None, now: float) -> None:
        """Start draining a node, which leaves at `deadline` at the latest; a repeated call sets a new deadline."""
        self.drains.setdefault(node, Drain(node, deadline, now)).deadline = deadline
        self._note(node, f"is to leave by {deadline}")

    def cancel(self, node: NodeId) -> bool:
        """Let a node that drains stay; return whether it still can. Answers about it that come later are ignored."""
        drain = self.drains.get(node)
        if drain is not None and drain.leaving:
            return False
        if self.drains.pop(node, None) is not None:
            self._note(node, "stays")
        return True

    def gone(self, node: NodeId) -> None:
        """A node has left, or died."""
        if self.drains.pop(node, None) is not None:
            self._note(node, "is gone")

    def look(self, node: NodeId, leases: Collection[LeaseId], now: float) -> list[Instruction]:
        """Time has passed; `leases` are those that have a worker there."""
        drain = self.drains[node]
        if drain.leaving:
            return []
        if drain.deadline is not None and now >= drain.deadline:
            return [self._leave(drain, LATE)]
        new = tuple(lease for lease in leases if lease not in drain.asked)
        drain.asked.update(new)
        instructions: list[Instruction] = [AskBack(new)] if new else []
        if not drain.waits_for and now >= drain.looks_next:
            drain.waits_for = 1
            drain.looks_next = now + STORE_SECONDS
            instructions.append(LookAtStore(node))
        return instructions

    def stored(
        self, node: NodeId, objects: Mapping[ObjectId, NodeId], others: Sequence[NodeId], busy: bool
    ) -> list[Instruction]:
        """The node has these objects, each owned by a process on the node given; `busy` says that something runs there.

        `others` are the nodes that stay. An object goes to that of its owner, if that stays, else to any.
        """
        drain = self.drains.get(node)
        if drain is None or drain.leaving:
            return []
        drain.waits_for = 0
        wanted = [(id, owner) for id, owner in objects.items() if id not in drain.settled and owner != node]
        if not others or not wanted:
            return [] if busy else [self._leave(drain, DONE)]
        chosen: dict[NodeId, list[ObjectId]] = {}
        for number, (id, owner) in enumerate(wanted):
            chosen.setdefault(owner if owner in others else others[number % len(others)], []).append(id)
        drain.waits_for = len(chosen)
        self._note(node, f"has {len(wanted)} objects to copy")
        return [CopyObjects(node, target, tuple(ids)) for target, ids in chosen.items()]

    def copied(self, node: NodeId, objects: Sequence[ObjectId]) -> None:
        """A node has copied these objects as far as possible, or is gone itself: they are not tried again."""
        drain = self.drains.get(node)
        if drain is not None:
            drain.waits_for -= 1
            drain.settled.update(objects)

    def _leave(self, drain: Drain, reason: str) -> Leave:
        drain.leaving = True
        self._note(drain.node, reason)
        return Leave(drain.node, reason)

    def _note(self, node: NodeId, what: str) -> None:
        self._history.append(f"{node.hex()[:12]} {what}")

    def validate(self) -> None:
        """Raise AssertionError, with the history, when an invariant is broken."""
        for node, drain in self.drains.items():
            story = "\n".join(self._history)
            assert drain.node == node, f"a drain is listed under another node\n{story}"
            assert drain.waits_for >= 0, f"{node.hex()} has answered more often than it was asked\n{story}"

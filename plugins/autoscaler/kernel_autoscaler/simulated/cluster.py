"""A cluster in virtual time: nodes join when their machines run, and work is placed on the first node with room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any

from kernel_autoscaler.core.bins import fits, take
from kernel_autoscaler.core.kinds import Kind
from kernel_autoscaler.core.snapshot import ALIVE, DRAINING, NodeView, Snapshot, WaitingGroup, WaitingShape
from kernel_autoscaler.simulated.cloud import SimulatedMachine
from kernel_spec.dataclass import dataclass
from kernel_spec.placement import DEFAULT, Placement
from kernel_spec.resources import Amounts

LEASES_AT_ONCE = 16
"""How many requests of a shape the head knows; the rest is behind them."""


@dataclass(slots=True, eq=False)
class SimulatedWork:
    """`count` equal pieces of work that come `at` a time, each of which runs for `seconds` once it is placed."""

    at: float
    wanted: Amounts
    seconds: float
    count: int = 1
    placement: Placement = DEFAULT
    group: tuple[str, str] | None = None
    """The placement group (its id and strategy) whose bundles these are, which are placed all together."""


@dataclass(slots=True, eq=False)
class _Node:
    id: str
    machine: str
    total: Amounts
    free: Amounts
    labels: dict[str, str]
    idle_since: float
    state: str = ALIVE
    pieces: list[tuple[float, Amounts]] = field(default_factory=list)
    """What runs there: until when, and what it holds."""


class SimulatedCluster:
    """Runs work on nodes. `fixed` are nodes that were started by hand, the head's first."""

    def __init__(self, kinds: Iterable[Kind], fixed: Sequence[Amounts] = ({},)) -> None:
        self._kinds = {kind.name: kind for kind in kinds}
        self.nodes: dict[str, _Node] = {}
        self.waiting: list[SimulatedWork] = []
        self.asked: list[Amounts] = []
        self.served = 0
        """How many pieces have ended."""
        self.cut_off = 0
        """How many pieces were running on machines that were ended."""
        self.waits: list[float] = []
        """How long each piece waited, in seconds."""
        for number, total in enumerate(fixed):
            self.nodes[f"fixed-{number}"] = _Node(f"fixed-{number}", "", dict(total), dict(total), {}, 0.0)

    # -- what happens ----------------------------------------------------------------------------------------------

    def come(self, work: SimulatedWork) -> None:
        """Work has come."""
        self.waiting.append(work)

    def follow(self, machines: Iterable[SimulatedMachine], joins: Iterable[str], now: float) -> None:
        """Let the nodes of running machines join, of which `joins` has the ids, and take away those that have ended."""
        may_join = set(joins)
        running = {one.id: one for one in machines if one.ended_at is None and now >= one.runs_at}
        for node in [node for node in self.nodes.values() if node.machine and node.machine not in running]:
            self.lose(node.id)
        there = {node.machine for node in self.nodes.values()}
        for id, machine in running.items():
            if id not in there and id in may_join:
                kind = self._kinds[machine.kind]
                total = dict(kind.resources)
                self.nodes[f"n-{id}"] = _Node(f"n-{id}", id, total, dict(total), dict(kind.labels), now)

    def lose(self, node: str) -> None:
        """A node is gone; what ran there waits again, as new work."""
        lost = self.nodes.pop(node)
        for until, wanted in lost.pieces:
            self.cut_off += 1
            self.waiting.append(SimulatedWork(until, wanted, 30.0))

    def advance(self, now: float) -> None:
        """End what has ended by now, let empty draining nodes leave, and place what waits."""
        for node in list(self.nodes.values()):
            ended = [piece for piece in node.pieces if piece[0] <= now]
            for until, wanted in ended:
                node.pieces.remove((until, wanted))
                for name, units in wanted.items():
                    node.free[name] += units
                self.served += 1
                node.idle_since = now
            if node.state == DRAINING and not node.pieces:
                del self.nodes[node.id]
        self.waiting = [work for work in self.waiting if not self._place(work, now)]

    def next_end(self) -> float | None:
        """Return when the next piece of work ends; None if nothing runs."""
        return min((until for node in self.nodes.values() for until, _ in node.pieces), default=None)

    def drain(self, node: str, drains: bool) -> None:
        """Let a node leave when it is empty, or (not `drains`) stay after all."""
        if node in self.nodes:
            self.nodes[node].state = DRAINING if drains else ALIVE

    def is_busy(self, machine: str) -> bool:
        """Return whether anything runs on a machine."""
        return any(node.machine == machine and node.pieces for node in self.nodes.values())

    # -- what is seen ----------------------------------------------------------------------------------------------

    def snapshot(self, now: float) -> Snapshot:
        """Return what the head would tell."""
        shapes = [_shape(works) for works in self._equal_works().values()]
        groups = [
            WaitingGroup(work.group[0], work.group[1], {number: work.wanted for number in range(work.count)})
            for work in self.waiting
            if work.group is not None
        ]
        nodes = [
            NodeView(
                node.id,
                node.total,
                dict(node.free),
                node.machine,
                node.id == "fixed-0",
                node.state,
                node.labels,
                None if node.pieces else now - node.idle_since,
            )
            for node in self.nodes.values()
        ]
        return Snapshot(shapes, groups, list(self.asked), nodes)

    def _equal_works(self) -> dict[Any, list[SimulatedWork]]:
        """Return the waiting work outside of groups by what it wants."""
        found: dict[Any, list[SimulatedWork]] = {}
        for work in self.waiting:
            if work.group is None:
                found.setdefault((tuple(sorted(work.wanted.items())), id(work.placement)), []).append(work)
        return found

    def _place(self, work: SimulatedWork, now: float) -> bool:
        """Place as many pieces as possible, a group whole or not at all; return whether all are placed."""
        if work.group is not None:
            return self._place_group(work, now)
        for node in self.nodes.values():
            count = self._room(node, work, work.count)
            if count:
                self._run(node, work, count, now)
                work.count -= count
            if not work.count:
                return True
        return False

    def _place_group(self, work: SimulatedWork, now: float) -> bool:
        missing, found = work.count, []
        for node in self.nodes.values():
            most = 1 if work.group is not None and work.group[1] == "STRICT_SPREAD" else missing
            count = self._room(node, work, min(most, missing))
            if count:
                found.append((node, count))
            missing -= count
        if missing:
            return False
        for node, count in found:
            self._run(node, work, count, now)
        return True

    def _room(self, node: _Node, work: SimulatedWork, most: int) -> int:
        if node.state != ALIVE or not work.placement.suits(node.labels):
            return 0
        return fits(node.free, work.wanted, most)

    def _run(self, node: _Node, work: SimulatedWork, count: int, now: float) -> None:
        take(node.free, work.wanted, count)
        node.pieces += [(now + work.seconds, work.wanted)] * count
        self.waits += [now - work.at] * count


def _shape(works: Sequence[SimulatedWork]) -> WaitingShape:
    """Return equal work as the head tells it: a few requests, and what is behind them."""
    count = sum(work.count for work in works)
    behind = max(0, count - LEASES_AT_ONCE)
    seconds = sum(work.count * work.seconds for work in works) * behind / max(count, 1)
    return WaitingShape(works[0].wanted, works[0].placement, count - behind, behind, seconds, ("work",))

"""The state machine: events in, grants and wishes out."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from kernel_scheduler_fifo.checks import check
from kernel_scheduler_fifo.explanation import explain_lease
from kernel_scheduler_fifo.lines import Line, Lines, Waiting
from kernel_scheduler_fifo.nodes import RESERVATION_SECONDS, Lease, NodeState, Reservation, allowed_nodes
from kernel_scheduler_fifo.reclaim import choose_leases_to_reclaim
from kernel_spec.ids import LeaseId, NodeId
from kernel_spec.resources import ResourcePool
from kernel_spec.scheduling import (
    Event,
    Grant,
    Instruction,
    LeaseBlocked,
    LeaseCancelled,
    LeaseReleased,
    LeaseRequested,
    LeaseUnblocked,
    NodeAdded,
    NodeRemoved,
    Reason,
    Reclaim,
    ResourceChanged,
    SchedulerSnapshot,
    Tick,
)

HISTORY_EVENTS = 200
"""How many of the last events a failed `validate` prints."""


class FifoScheduler:
    """First in, first out within a shape; a shape that does not fit lets others pass, but not for ever.

    A shape is what a request wants and where. The invariant that makes every step cheap: between two events the
    front of no line fits anywhere. So after an event only the fronts are tried, and only on the nodes where
    something was freed; how many wait behind them does not matter.
    """

    name = "fifo"

    def __init__(self) -> None:
        self.nodes: dict[NodeId, NodeState] = {}
        self.leases: dict[LeaseId, Lease] = {}
        self.lines = Lines()
        self.history: deque[tuple[float, Event, list[Instruction]]] = deque(maxlen=HISTORY_EVENTS)
        self._reservations: dict[NodeId, Reservation] = {}
        self._nodes_seen = 0
        self._grants = 0
        # A lease is asked back at most once while anybody waits; when nobody does, the next episode begins.
        self._episode = 1
        self._handlers: dict[type, Callable[[Any, float], list[Instruction]]] = {
            NodeAdded: self._node_added,
            NodeRemoved: self._node_removed,
            ResourceChanged: self._resource_changed,
            LeaseRequested: self._lease_requested,
            LeaseCancelled: self._lease_cancelled,
            LeaseReleased: self._lease_released,
            LeaseBlocked: self._lease_blocked,
            LeaseUnblocked: self._lease_unblocked,
            Tick: self._tick,
        }

    # -- the contract ----------------------------------------------------------------------------------------------

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """Take one event in and return what to do, in order. An event of an unknown kind changes nothing."""
        handler = self._handlers.get(type(event))
        instructions = handler(event, now) if handler is not None else []
        if instructions or type(event) is not Tick:
            self.history.append((now, event, instructions))
        if not len(self.lines):
            self._episode += 1
        return instructions

    def explain(self, id: LeaseId, now: float) -> Reason:
        """Say why the request `id` waits: what is missing, how much of it, where, and who holds it."""
        return explain_lease(id, now, self.lines, self.leases, self.nodes)

    def snapshot(self) -> SchedulerSnapshot:
        """Return a copy of what is held."""
        waiting = sorted((entry for line in self.lines for entry in line.waiting.values()), key=lambda e: e.number)
        return SchedulerSnapshot(
            total={id: dict(node.pool.total) for id, node in self.nodes.items()},
            available={id: dict(node.pool.available) for id, node in self.nodes.items()},
            waiting=[entry.request for entry in waiting],
            granted={id: lease.grant for id, lease in self.leases.items()},
        )

    def validate(self) -> None:
        """Raise AssertionError, with the last events, when an invariant is broken."""
        try:
            check(self.nodes, self.leases, self.lines)
        except AssertionError as broken:
            story = "\n".join(f"  {now:.3f} {event} -> {done}" for now, event, done in self.history)
            raise AssertionError(f"{broken}\nThe last {len(self.history)} events:\n{story}") from broken

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _node_added(self, event: NodeAdded, now: float) -> list[Instruction]:
        node = self.nodes.get(event.node)
        if node is None:
            self._nodes_seen += 1
            pool = ResourcePool(event.total, event.device_resources)
            node = self.nodes[event.node] = NodeState(event.node, self._nodes_seen, pool, dict(event.labels))
            return self._serve([node], now)
        node.pool.resize(event.total)
        node.labels = dict(event.labels)
        return self._serve(self._news_of(node), now)

    def _node_removed(self, event: NodeRemoved, now: float) -> list[Instruction]:
        node = self.nodes.pop(event.node, None)
        if node is None:
            return []
        self._reservations.pop(node.id, None)
        for id in node.leases:
            del self.leases[id]
        # A soft affinity for the node may now go elsewhere, so every node is news to somebody.
        return self._serve(self.nodes.values(), now)

    def _resource_changed(self, event: ResourceChanged, now: float) -> list[Instruction]:
        node = self.nodes.get(event.node)
        if node is None or event.name in node.pool.device_resources:
            return []
        node.pool.set_total(event.name, event.quantity)
        return self._serve(self._news_of(node), now)

    def _news_of(self, node: NodeState) -> Iterable[NodeState]:
        """Return the nodes where somebody may fit now that `node` has other totals.

        A node that shrank can lose a soft affinity, and who wished for it may then go anywhere.
        """
        return self.nodes.values() if any(line.placement.soft for line in self.lines) else [node]

    # -- leases ----------------------------------------------------------------------------------------------------

    def _lease_requested(self, event: LeaseRequested, now: float) -> list[Instruction]:
        request = event.request
        if request.id in self.lines or request.id in self.leases:
            return []
        line = self.lines.join(request, now)
        if len(line.waiting) > 1:
            return []
        grant = self._place(line, line.front, self.nodes.values())
        if grant is None:
            return []
        for other in self.lines:
            other.note_overtaken(request.wanted, now)
        return [grant]

    def _lease_cancelled(self, event: LeaseCancelled, now: float) -> list[Instruction]:
        if event.id not in self.lines:
            return []
        self.lines.leave(event.id)
        return self._serve([], now)

    def _lease_released(self, event: LeaseReleased, now: float) -> list[Instruction]:
        lease = self.leases.pop(event.id, None)
        if lease is None:
            return []
        node = self.nodes[lease.grant.node]
        node.remove(lease)
        return self._serve([node], now)

    def _lease_blocked(self, event: LeaseBlocked, now: float) -> list[Instruction]:
        return self._set_blocked(event.id, True, now)

    def _lease_unblocked(self, event: LeaseUnblocked, now: float) -> list[Instruction]:
        return self._set_blocked(event.id, False, now)

    def _set_blocked(self, id: LeaseId, blocked: bool, now: float) -> list[Instruction]:
        lease = self.leases.get(id)
        if lease is None:
            return []
        node = self.nodes[lease.grant.node]
        node.set_blocked(lease, blocked)
        return self._serve([node] if blocked else [], now)

    # -- time ------------------------------------------------------------------------------------------------------

    def _tick(self, event: Tick, now: float) -> list[Instruction]:
        if not len(self.lines):
            return []
        instructions = self._serve([], now)
        for line in self.lines.oldest_first():
            self._reserve(line, now)
        for lease in choose_leases_to_reclaim(self.lines, self.nodes, now, self._episode):
            lease.asked_in = self._episode
            instructions.append(Reclaim(lease.request.id))
        return instructions

    # -- serving those who wait ------------------------------------------------------------------------------------

    def _serve(self, freed: Iterable[NodeState], now: float) -> list[Instruction]:
        """Grant what fits on the nodes where something was freed, oldest front first."""
        grants: list[Instruction] = []
        nodes = {node.id: node for node in (*freed, *self._drop_reservations(now))}
        while nodes and len(self.lines):
            grants += self._serve_on(list(nodes.values()), now)
            nodes = {node.id: node for node in self._drop_reservations(now)}
        return grants

    def _serve_on(self, nodes: list[NodeState], now: float) -> list[Instruction]:
        grants: list[Instruction] = []
        passed: list[Line] = []
        fronts = [(line.front.number, line) for line in self.lines]  # numbers are unique: lines are never compared
        heapq.heapify(fronts)
        while fronts:
            _, line = heapq.heappop(fronts)
            grant = self._place(line, line.front, nodes)
            if grant is None:
                passed.append(line)
                self._reserve(line, now)
                continue
            grants.append(grant)
            for other in passed:
                other.note_overtaken(line.wanted, now)
            if line.waiting:
                heapq.heappush(fronts, (line.front.number, line))
        return grants

    def _place(self, line: Line, entry: Waiting, candidates: Iterable[NodeState]) -> Grant | None:
        """Grant the front of a line on the first of `candidates` that can take it."""
        for node in allowed_nodes(line.placement, line.wanted, candidates, self.nodes):
            allocation = node.acquire(line.wanted, entry.number)
            if allocation is None:
                continue
            request = entry.request
            grant = Grant(request.id, node.id, allocation)
            self._grants += 1
            lease = self.leases[request.id] = Lease(request, grant, self._grants)
            node.add(lease)
            self.lines.leave(request.id)
            return grant
        return None

    # -- keeping resources for the oldest --------------------------------------------------------------------------

    def _reserve(self, line: Line, now: float) -> None:
        """Keep what is freed on one node for the front of a line that others passed too often."""
        if not line.starves(now) or any(kept.line is line for kept in self._reservations.values()):
            return
        nodes = [
            node
            for node in allowed_nodes(line.placement, line.wanted, self.nodes.values(), self.nodes)
            if node.reservation is None and node.could_free(line.wanted)
        ]
        if not nodes:
            return
        node = min(nodes, key=lambda node: sum(node.pool.missing(line.wanted).values()))
        front = line.front
        node.reservation = Reservation(line, front.request.id, front.number, now + RESERVATION_SECONDS)
        self._reservations[node.id] = node.reservation

    def _drop_reservations(self, now: float) -> list[NodeState]:
        """End the reservations that are done, hopeless or too old, and return the nodes where others may now go."""
        dropped = []
        for id, kept in list(self._reservations.items()):
            node = self.nodes[id]
            waits = self.lines.find(kept.id) is kept.line
            if waits and now < kept.until and node.could_free(kept.line.wanted):
                continue
            if waits:
                kept.line.overtaken = 0
            node.reservation = None
            del self._reservations[id]
            dropped.append(node)
        return dropped

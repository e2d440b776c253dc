"""A scheduler that is as flat as can be, to try the simulation on. It counts its steps."""

from __future__ import annotations

from collections import deque

from kernel_spec import scheduling as s
from kernel_spec.ids import GroupId, LeaseId, NodeId
from kernel_spec.resources import CPU, UNIT, Allocation, amounts


class FlatScheduler:
    """Gives every request, and every bundle of a group, one CPU of the node where one was freed last."""

    name = "flat"

    def __init__(self) -> None:
        self.steps = 0
        self.total: dict[NodeId, dict[str, int]] = {}
        self.free: dict[NodeId, int] = {}
        self.open: dict[NodeId, None] = {}
        self.draining: set[NodeId] = set()
        self.waiting: dict[LeaseId, s.LeaseRequest] = {}
        self.granted: dict[LeaseId, s.Grant] = {}
        self.in_groups: set[LeaseId] = set()
        self.waiting_groups: deque[s.GroupRequest] = deque()
        self.groups: dict[GroupId, list[s.Bundle]] = {}
        self.requests: dict[GroupId, s.GroupRequest] = {}

    def handle(self, event: s.Event, now: float) -> list[s.Instruction]:
        """Take one event in and return what to do."""
        self.steps += 1
        match event:
            case s.NodeAdded(node, total):
                self.total[node], self.free[node] = amounts(total), 0
                self._change(node, int(total["CPU"]))
            case s.NodeDraining(node):
                self.draining.add(node)
                self._change(node, 0)
            case s.NodeRemoved(node):
                self._remove_node(node)
            case s.LeaseRequested(request):
                self.waiting[request.id] = request
            case s.LeaseCancelled(id):
                self.waiting.pop(id, None)
            case s.LeaseHeld(request, grant):
                self.granted[request.id] = grant
                if request.group is None:
                    self._change(grant.node, -1)
                else:
                    self.in_groups.add(request.id)
            case s.LeaseReleased(id) if id in self.granted:
                node = self.granted.pop(id).node
                if id in self.in_groups:
                    self.in_groups.discard(id)
                else:
                    self._change(node, 1)
            case s.GroupRequested(request):
                self.waiting_groups.append(request)
            case s.GroupHeld(request, bundles):
                self.groups[request.id], self.requests[request.id] = list(bundles), request
                for bundle in bundles:
                    self._change(bundle.node, -1)
                if len(bundles) < len(request.bundles):
                    self.waiting_groups.append(request)
            case s.GroupRemoved(id):
                for bundle in self.groups.pop(id, ()):
                    self._change(bundle.node, 1)
                self.waiting_groups = deque(request for request in self.waiting_groups if request.id != id)
        return [*self._place_groups(), *self._grant()]

    def explain(self, id: LeaseId | GroupId, now: float) -> s.Reason:
        """Say that all is busy."""
        return s.Reason("busy", "every CPU is taken")

    def snapshot(self) -> s.SchedulerSnapshot:
        """Return what is held."""
        free = {node: {**self.total[node], CPU: units * UNIT} for node, units in self.free.items()}
        return s.SchedulerSnapshot(self.total, free, list(self.waiting.values()), dict(self.granted), self.groups)

    def validate(self) -> None:
        """Raise AssertionError when a node has given more than it has."""
        assert all(units >= 0 for units in self.free.values()), "a node has given more than it has"

    def _remove_node(self, node: NodeId) -> None:
        del self.total[node], self.free[node]
        self.open.pop(node, None)
        self.draining.discard(node)
        for id in [id for id, grant in self.granted.items() if grant.node == node]:
            del self.granted[id]
        for id, bundles in self.groups.items():
            if any(bundle.node == node for bundle in bundles):
                self.groups[id] = [bundle for bundle in bundles if bundle.node != node]
                self.waiting_groups.append(self.requests[id])

    def _change(self, node: NodeId, by: int) -> None:
        self.free[node] += by
        if self.free[node] and node not in self.draining:
            self.open[node] = None
        else:
            self.open.pop(node, None)

    def _take(self) -> NodeId:
        node = next(reversed(self.open))
        self._change(node, -1)
        return node

    def _place_groups(self) -> list[s.Instruction]:
        placed: list[s.Instruction] = []
        while self.waiting_groups:
            request = self.waiting_groups[0]
            held = self.groups.setdefault(request.id, [])
            lacking = set(range(len(request.bundles))) - {bundle.index for bundle in held}
            if sum(self.free[node] for node in self.open) < len(lacking):
                break
            self.requests[request.id] = self.waiting_groups.popleft()
            new = [s.Bundle(index, self._take(), Allocation({CPU: UNIT})) for index in sorted(lacking)]
            held += new
            placed.append(s.PlaceGroup(request.id, tuple(new)))
        return placed

    def _grant(self) -> list[s.Instruction]:
        grants: list[s.Instruction] = []
        for request in list(self.waiting.values()) if self.open or self.groups else ():
            self.steps += 1
            if request.group is not None:
                lies = {bundle.index: bundle.node for bundle in self.groups.get(request.group, ())}
                if request.bundle not in lies or lies[request.bundle] in self.draining:
                    continue
                node, bundle = lies[request.bundle], request.bundle
                self.in_groups.add(request.id)
            elif self.open:
                node, bundle = self._take(), -1
            else:
                break
            del self.waiting[request.id]
            grant = self.granted[request.id] = s.Grant(request.id, node, Allocation({CPU: UNIT}), bundle)
            grants.append(grant)
        return grants

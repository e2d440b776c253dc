"""A small world around a scheduler: it feeds events and checks each answer against its own account."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernel_conformance.scheduler_account import Account
from kernel_spec.dataclass import dataclass
from kernel_spec.ids import GroupId, JobId, LeaseId, NodeId, ProcessId
from kernel_spec.resources import Allocation, amounts, quantities
from kernel_spec.scheduling import (
    PACK,
    Bundle,
    DrainCancelled,
    Event,
    Grant,
    GroupHeld,
    GroupRemoved,
    GroupRequest,
    GroupRequested,
    LeaseBlocked,
    LeaseCancelled,
    LeaseHeld,
    LeaseReleased,
    LeaseRequest,
    LeaseRequested,
    LeaseUnblocked,
    NodeAdded,
    NodeDraining,
    NodeRemoved,
    Preempt,
    Reason,
    ResourceChanged,
    Tick,
)


@dataclass
class SchedulerHarness(Account):
    """Plays the head. Every method feeds one event; a broken promise raises AssertionError at once.

    `granted` holds the living leases, `order` every grant ever made, `reclaimed` every wish to have one back, `bundles`
    where each group lies. `make` makes a scheduler like this one, for `restart`. Time passes only by `tick`.
    """

    now: float = 1000.0
    _ids: int = 0

    # -- nodes -----------------------------------------------------------------------------------------------------

    def add_node(
        self, total: Mapping[str, float], node: NodeId | None = None, labels: Mapping[str, str] | None = None
    ) -> NodeId:
        """Add a node, or give a known one other totals and labels."""
        node = node or NodeId(self._next_id(b"node"))
        self.nodes[node], self.labels[node] = amounts(total), labels or {}
        self.feed(NodeAdded(node, dict(total), labels or {}))
        return node

    def drain_node(self, node: NodeId) -> None:
        """Announce that a node will leave."""
        self.draining.add(node)
        self.feed(NodeDraining(node))

    def cancel_drain(self, node: NodeId) -> None:
        """Announce that a node that was to leave stays."""
        self.draining.discard(node)
        self.feed(DrainCancelled(node))

    def remove_node(self, node: NodeId) -> None:
        """Take a node away, and every lease and bundle on it."""
        self.nodes.pop(node, None)
        self.draining.discard(node)
        for lease in [id for id, grant in self.granted.items() if grant.node == node]:
            self._forget(lease)
        for id, bundles in self.bundles.items():
            self.bundles[id] = {index: bundle for index, bundle in bundles.items() if bundle.node != node}
        self.feed(NodeRemoved(node))

    def set_resource(self, node: NodeId, name: str, quantity: float) -> None:
        """Set a custom resource of a node."""
        self.nodes[node].pop(name, None)
        self.nodes[node].update(amounts({name: quantity}))
        self.feed(ResourceChanged(node, name, quantity))

    # -- leases ----------------------------------------------------------------------------------------------------

    def request(self, wanted: Mapping[str, float], requester: str = "driver", **fields: Any) -> LeaseId:
        """Ask for a lease of `wanted` (plain quantities); `fields` are further fields of `LeaseRequest`."""
        id = LeaseId(self._next_id(b"lse"))
        process = ProcessId(requester.encode().ljust(8, b"."))
        request = LeaseRequest(id, JobId(b"job....."), process, amounts(wanted), **fields)
        self.waiting[id] = self.requests[id] = request
        self.feed(LeaseRequested(request))
        return id

    def request_many(self, count: int, wanted: Mapping[str, float], **fields: Any) -> list[LeaseId]:
        """Ask for several leases alike."""
        return [self.request(wanted, **fields) for _ in range(count)]

    def hold(self, wanted: Mapping[str, float], node: NodeId, blocked: bool = False, **fields: Any) -> LeaseId:
        """Say that a lease was granted before; `devices` are those of its allocation, `bundle` is its grant's too."""
        id = LeaseId(self._next_id(b"lse"))
        allocation = self._allocation(wanted, fields.pop("devices", {}))
        request = LeaseRequest(id, JobId(b"job....."), ProcessId(b"driver.."), amounts(wanted), **fields)
        self.requests[id] = request
        grant = self.granted[id] = Grant(id, node, allocation, fields.get("bundle", -1))
        self.order.append(id)
        if blocked:
            self.blocked.add(id)
        self.feed(LeaseHeld(request, grant, blocked))
        return id

    def cancel(self, id: LeaseId) -> None:
        """Withdraw a request."""
        self.waiting.pop(id, None)
        self.feed(LeaseCancelled(id))

    def release(self, *ids: LeaseId) -> None:
        """End granted leases, one after the other."""
        for id in ids:
            self._forget(id)
            self.feed(LeaseReleased(id))

    def block(self, id: LeaseId) -> None:
        """Say that a lease's worker waits."""
        if id in self.granted:
            self.blocked.add(id)
        self.feed(LeaseBlocked(id))

    def unblock(self, id: LeaseId) -> None:
        """Say that a lease's worker runs on."""
        self.blocked.discard(id)
        self.feed(LeaseUnblocked(id))

    # -- placement groups ------------------------------------------------------------------------------------------

    def group(self, bundles: Sequence[Mapping[str, float]], strategy: str = PACK, **fields: Any) -> GroupId:
        """Ask for a placement group; `fields` are further fields of `GroupRequest`."""
        request = self._group_request(bundles, strategy, **fields)
        self.feed(GroupRequested(request))
        return request.id

    def hold_group(
        self, bundles: Sequence[Mapping[str, float]], places: Mapping[int, NodeId], strategy: str = PACK, **fields: Any
    ) -> GroupId:
        """Say that a group was placed before, with bundle numbers on the nodes `places`."""
        devices = fields.pop("devices", {})
        request = self._group_request(bundles, strategy, **fields)
        held = {
            index: Bundle(index, node, self._allocation(bundles[index], devices.get(index, {})))
            for index, node in places.items()
        }
        self.bundles[request.id] = held
        self.feed(GroupHeld(request, tuple(held.values())))
        return request.id

    def remove_group(self, id: GroupId, in_order: bool = True) -> None:
        """End a group, and before that every lease that waits or runs in it.

        Without `in_order` nobody says that those that run are over: they end with their group.
        """
        for lease in [lease for lease, request in self.waiting.items() if request.group == id]:
            self.cancel(lease)
        for lease in [lease for lease in self.granted if self.requests[lease].group == id]:
            self.release(lease) if in_order else self._forget(lease)
        self.groups.pop(id, None)
        self.bundles.pop(id, None)
        self.feed(GroupRemoved(id))

    def nodes_of(self, id: GroupId) -> list[NodeId]:
        """Return the nodes of a group's bundles, by number; empty while it waits."""
        return [bundle.node for _, bundle in sorted(self.bundles[id].items())]

    # -- the rest --------------------------------------------------------------------------------------------------

    def tick(self, seconds: float = 0.1, times: int = 1) -> list[LeaseId]:
        """Let time pass, and return whose leases were asked back meanwhile."""
        before = len(self.reclaimed)
        for _ in range(times):
            self.now += seconds
            self.feed(Tick())
        return self.reclaimed[before:]

    def restart(self) -> None:
        """Put a new scheduler in the old one's place and tell it what is there, what is held and who waits."""
        assert self.make is not None, "a world that is to be restarted has to know what makes a scheduler"
        self.scheduler = self.make()
        for node, total in self.nodes.items():
            self._replay(NodeAdded(node, quantities(total), self.labels[node]))
        for node in self.nodes:
            if node in self.draining:
                self._replay(NodeDraining(node))
        for id, group in self.groups.items():
            if self.bundles[id]:
                self._replay(GroupHeld(group, tuple(self.bundles[id].values())))
        for lease, grant in self.granted.items():
            self._replay(LeaseHeld(self.requests[lease], grant, lease in self.blocked))
        for group in [group for id, group in self.groups.items() if not self.bundles[id]]:
            self._replay(GroupRequested(group))
        for request in list(self.waiting.values()):
            self._replay(LeaseRequested(request))
        self._replay(Tick())
        self.check_snapshot()

    def explain(self, id: LeaseId | GroupId) -> Reason:
        """Ask why a request waits, and check that the answer is one."""
        reason = self.scheduler.explain(id, self.now)
        codes = ("infeasible", "busy", "behind", "granted", "unknown")
        assert reason.code in codes, f"explain({id.hex()}) answered with code {reason.code!r}, not one of {codes}"
        assert reason.text.strip(), f"explain({id.hex()}) answered {reason.code!r} without a text"
        return reason

    def feed(self, event: Event) -> None:
        """Hand an event over and check what comes back, and what the scheduler then believes."""
        self._replay(event)
        self.check_snapshot()

    def _replay(self, event: Event) -> None:
        answers = self.scheduler.handle(event, self.now)
        for instruction in answers:
            self.check(instruction, event)
        self.scheduler.validate()
        for instruction in answers:
            if isinstance(instruction, Preempt):
                self._forget(instruction.id)
                self._replay(LeaseReleased(instruction.id))

    def _forget(self, id: LeaseId) -> None:
        self.granted.pop(id, None)
        self.blocked.discard(id)

    def _group_request(self, bundles: Sequence[Mapping[str, float]], strategy: str, **fields: Any) -> GroupRequest:
        id = fields.pop("id", None) or GroupId(self._next_id(b"grp"))
        exact = [amounts(bundle) for bundle in bundles]
        self.groups[id] = GroupRequest(id, JobId(b"job....."), exact, strategy, **fields)
        self.bundles[id] = {}
        return self.groups[id]

    def _allocation(self, wanted: Mapping[str, float], devices: Mapping[str, Mapping[int, int]]) -> Allocation:
        return Allocation(amounts(wanted), {name: dict(shares) for name, shares in devices.items()})

    def _next_id(self, prefix: bytes) -> bytes:
        self._ids += 1
        return prefix + self._ids.to_bytes(8 - len(prefix), "big")

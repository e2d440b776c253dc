"""A small world around a scheduler: it feeds events and checks each answer against its own account."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernel_spec.ids import JobId, LeaseId, NodeId, ProcessId
from kernel_spec.resources import CPU, UNIT, ResourcePool, amounts
from kernel_spec.scheduling import (
    Event,
    Grant,
    LeaseBlocked,
    LeaseCancelled,
    LeaseReleased,
    LeaseRequest,
    LeaseRequested,
    LeaseUnblocked,
    NodeAdded,
    NodeRemoved,
    Reason,
    Reclaim,
    ResourceChanged,
    Scheduler,
    Tick,
)


@dataclass
class SchedulerHarness:
    """Plays the node agent. Every method feeds one event; a broken promise raises AssertionError at once.

    `granted` holds the living leases, `order` every grant ever made, `reclaimed` every wish to have one back.
    Time passes only by `tick`.
    """

    scheduler: Scheduler
    now: float = 1000.0
    nodes: dict[NodeId, dict[str, int]] = field(default_factory=dict)
    waiting: dict[LeaseId, LeaseRequest] = field(default_factory=dict)
    granted: dict[LeaseId, Grant] = field(default_factory=dict)
    requests: dict[LeaseId, LeaseRequest] = field(default_factory=dict)
    blocked: set[LeaseId] = field(default_factory=set)
    order: list[LeaseId] = field(default_factory=list)
    reclaimed: list[LeaseId] = field(default_factory=list)
    _ids: int = 0

    # -- events ----------------------------------------------------------------------------------------------------

    def add_node(
        self, total: Mapping[str, float], node: NodeId | None = None, labels: Mapping[str, str] | None = None
    ) -> NodeId:
        """Add a node, or give a known one other totals."""
        node = node or NodeId(self._next_id(b"node"))
        self.nodes[node] = amounts(total)
        self.feed(NodeAdded(node, dict(total), labels or {}))
        return node

    def remove_node(self, node: NodeId) -> None:
        """Take a node away, and every lease on it."""
        self.nodes.pop(node, None)
        for id in [id for id, grant in self.granted.items() if grant.node == node]:
            del self.granted[id]
            self.blocked.discard(id)
        self.feed(NodeRemoved(node))

    def set_resource(self, node: NodeId, name: str, quantity: float) -> None:
        """Set a custom resource of a node."""
        self.nodes[node].pop(name, None)
        self.nodes[node].update(amounts({name: quantity}))
        self.feed(ResourceChanged(node, name, quantity))

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

    def cancel(self, id: LeaseId) -> None:
        """Withdraw a request."""
        self.waiting.pop(id, None)
        self.feed(LeaseCancelled(id))

    def release(self, *ids: LeaseId) -> None:
        """End granted leases, one after the other."""
        for id in ids:
            self.granted.pop(id, None)
            self.blocked.discard(id)
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

    def tick(self, seconds: float = 0.1, times: int = 1) -> list[LeaseId]:
        """Let time pass, and return whose leases were asked back meanwhile."""
        before = len(self.reclaimed)
        for _ in range(times):
            self.now += seconds
            self.feed(Tick())
        return self.reclaimed[before:]

    def explain(self, id: LeaseId) -> Reason:
        """Ask why a request waits, and check that the answer is one."""
        reason = self.scheduler.explain(id, self.now)
        codes = ("infeasible", "busy", "behind", "granted", "unknown")
        assert reason.code in codes, f"explain({id.hex()}) answered with code {reason.code!r}, not one of {codes}"
        assert reason.text.strip(), f"explain({id.hex()}) answered {reason.code!r} without a text"
        return reason

    # -- account ---------------------------------------------------------------------------------------------------

    def feed(self, event: Event) -> None:
        """Hand an event over and check what comes back."""
        for instruction in self.scheduler.handle(event, self.now):
            if isinstance(instruction, Grant):
                self._check_grant(instruction, event)
            elif isinstance(instruction, Reclaim):
                self._check_reclaim(instruction)
            else:
                raise AssertionError(f"{event} was answered with {instruction!r}, which is no instruction")
        self.scheduler.validate()

    def used(self, node: NodeId, name: str, without: Iterable[LeaseId] = ()) -> int:
        """Return how many units of a resource the leases on a node hold and have not lent."""
        skip = set(without)
        return sum(
            grant.allocation.amounts.get(name, 0)
            for id, grant in self.granted.items()
            if grant.node == node and id not in skip and not (name == CPU and id in self.blocked)
        )

    def feasible(self, request: LeaseRequest) -> bool:
        """Return whether some node that the request may use could hold it when empty."""
        strategy = request.strategy
        nodes = self.nodes
        if isinstance(strategy, Mapping) and strategy.get("type") == "node_affinity" and not strategy.get("soft"):
            nodes = {node: total for node, total in nodes.items() if node.hex() == strategy["node"]}
        return any(
            ResourcePool({name: units / UNIT for name, units in total.items()}).fits_ever(request.wanted)
            for total in nodes.values()
        )

    def _check_grant(self, grant: Grant, event: Event) -> None:
        what = f"after {event} the scheduler granted {grant}"
        assert grant.id in self.requests, f"{what}: nobody asked for that"
        assert grant.id not in self.order, f"{what}: it was granted before"
        assert grant.id in self.waiting, f"{what}: it was cancelled"
        assert grant.node in self.nodes, f"{what}: there is no such node"
        request = self.waiting.pop(grant.id)
        held = {name: units for name, units in grant.allocation.amounts.items() if units}
        wanted = {name: units for name, units in request.wanted.items() if units}
        assert held == wanted, f"{what}: {wanted} was asked for"
        self._check_affinity(grant, request, what)
        self.granted[grant.id] = grant
        self.order.append(grant.id)
        for name in wanted:
            used, total = self.used(grant.node, name), self.nodes[grant.node].get(name, 0)
            assert used <= total, f"{what}: {used} units of {name} are now in use, the node has {total}"
        self._check_devices(grant, what)

    def _check_affinity(self, grant: Grant, request: LeaseRequest, what: str) -> None:
        strategy = request.strategy
        if isinstance(strategy, Mapping) and strategy.get("type") == "node_affinity" and not strategy.get("soft"):
            assert grant.node.hex() == strategy["node"], f"{what}: it may only go to node {strategy['node']}"

    def _check_devices(self, grant: Grant, what: str) -> None:
        gpus = grant.allocation.amounts.get("GPU", 0)
        shares = grant.allocation.devices.get("GPU", {})
        assert sum(shares.values()) == gpus, f"{what}: its devices add up to {sum(shares.values())} units"
        if gpus >= UNIT:
            assert all(units == UNIT for units in shares.values()), f"{what}: whole devices were asked for"
        else:
            assert len(shares) <= 1, f"{what}: a share must lie on one device"
        for index in shares:
            on_device = sum(
                other.allocation.devices.get("GPU", {}).get(index, 0)
                for other in self.granted.values()
                if other.node == grant.node
            )
            assert on_device <= UNIT, f"{what}: device {index} is now held {on_device / UNIT:g} times"

    def _check_reclaim(self, reclaim: Reclaim) -> None:
        assert reclaim.id in self.granted, f"{reclaim}: nobody holds that lease"
        assert not self.requests[reclaim.id].for_actor, f"{reclaim}: it is an actor's, which is never asked back"
        self.reclaimed.append(reclaim.id)

    def _next_id(self, prefix: bytes) -> bytes:
        self._ids += 1
        return prefix + self._ids.to_bytes(8 - len(prefix), "big")


_WANTED: list[dict[str, float]] = [
    {"CPU": 1},
    {"CPU": 1},
    {"CPU": 2},
    {"CPU": 0.5},
    {"CPU": 4},
    {},
    {"CPU": 1, "GPU": 1},
    {"GPU": 0.3},
    {"GPU": 2},
    {"CPU": 1, "memory": 3},
    {"blue": 1},
    {"CPU": 64},
]


def random_history(world: SchedulerHarness, dice: random.Random, affinities: bool, events: int = 300) -> None:
    """Feed random events, then let everything end and see that nobody is left who could have been served."""
    for total in ({"CPU": 4, "GPU": 2, "memory": 8}, {"CPU": 2}):
        world.add_node(total)
    for _ in range(events):
        _random_event(world, dice, affinities)
    for _ in range(4 * events):
        if not world.granted:
            break
        world.tick(0.1)
        world.release(dice.choice(list(world.granted)))
    left = [request for request in world.waiting.values() if world.feasible(request)]
    assert not left, f"nothing runs, and {len(left)} requests that would fit still wait, such as {left[0]}"
    snapshot = world.scheduler.snapshot()
    for node, total in world.nodes.items():
        free = {name: units for name, units in snapshot.available[node].items() if units}
        assert free == total, f"nothing runs on node {node.hex()} with {total}, and {free} is free"


def _random_event(world: SchedulerHarness, dice: random.Random, affinities: bool) -> None:
    kind = dice.random()
    granted, waiting, nodes = list(world.granted), list(world.waiting), list(world.nodes)
    if kind < 0.4:
        strategy: object = dice.choice(["DEFAULT", "DEFAULT", "SPREAD"])
        if affinities and nodes and dice.random() < 0.2:
            strategy = {"type": "node_affinity", "node": dice.choice(nodes).hex(), "soft": dice.random() < 0.5}
        who = dice.choice(["driver", "worker", "guest"])
        wanted = dice.choice(_WANTED)
        world.request(wanted, requester=who, strategy=strategy, for_actor=dice.random() < 0.1)
    elif kind < 0.62 and granted:
        world.release(dice.choice(granted))
    elif kind < 0.7 and waiting:
        world.cancel(dice.choice(waiting))
    elif kind < 0.8 and granted:
        id = dice.choice(granted)
        (world.unblock if id in world.blocked else world.block)(id)
    elif kind < 0.83 and nodes:
        world.set_resource(dice.choice(nodes), "blue", dice.choice([0, 1, 3]))
    elif kind < 0.85:
        world.add_node(dice.choice([{"CPU": 1}, {"CPU": 8, "GPU": 1}, {"memory": 4}]))
    elif kind < 0.87 and len(nodes) > 1:
        world.remove_node(dice.choice(nodes))
    elif kind < 0.89 and nodes:
        world.add_node({"CPU": dice.choice([1, 4, 6]), "GPU": 2}, node=dice.choice(nodes))
    else:
        world.tick(dice.choice([0.1, 0.1, 1.0, 5.0]))

"""What must be true of every instruction of a scheduler, by an account of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from kernel_spec.dataclass import dataclass
from kernel_spec.ids import GroupId, LeaseId, NodeId
from kernel_spec.packing import Misfit, pack
from kernel_spec.placement import Placement, conditions, placement_of
from kernel_spec.resources import CPU, UNIT, Allocation, Amounts, ResourcePool, quantities
from kernel_spec.scheduling import (
    STRICT_PACK,
    STRICT_SPREAD,
    Bundle,
    Event,
    Grant,
    GroupHeld,
    GroupRequest,
    Instruction,
    LeaseHeld,
    LeaseRequest,
    PlaceGroup,
    Preempt,
    Reclaim,
    Scheduler,
)


@dataclass
class Account:
    """Plays the head's memory: what is there, who waits, who holds what. `check` adds what a scheduler answers."""

    scheduler: Scheduler
    make: Callable[[], Scheduler] | None = None
    nodes: dict[NodeId, Amounts] = field(default_factory=dict)
    labels: dict[NodeId, Mapping[str, str]] = field(default_factory=dict)
    draining: set[NodeId] = field(default_factory=set)
    waiting: dict[LeaseId, LeaseRequest] = field(default_factory=dict)
    granted: dict[LeaseId, Grant] = field(default_factory=dict)
    requests: dict[LeaseId, LeaseRequest] = field(default_factory=dict)
    blocked: set[LeaseId] = field(default_factory=set)
    order: list[LeaseId] = field(default_factory=list)
    reclaimed: list[LeaseId] = field(default_factory=list)
    preempted: list[LeaseId] = field(default_factory=list)
    groups: dict[GroupId, GroupRequest] = field(default_factory=dict)
    bundles: dict[GroupId, dict[int, Bundle]] = field(default_factory=dict)
    """Where the bundles of each group are, by number; a group that waits has an empty entry."""

    def used(self, node: NodeId, name: str, without: Iterable[LeaseId] = ()) -> int:
        """Return how many units of a resource leases and bundles hold on a node and have not lent."""
        leases = [id for id in self._on(node) if self.requests[id].group is None and id not in set(without)]
        bundles = [bundle.allocation for bundle in self._bundles_on(node)]
        return sum(self._counts(id, name) for id in leases) + sum(held.amounts.get(name, 0) for held in bundles)

    def missing_bundles(self, id: GroupId) -> dict[int, Amounts]:
        """Return the bundles of a group that have no place, by number."""
        placed = self.bundles[id]
        return {index: wanted for index, wanted in enumerate(self.groups[id].bundles) if index not in placed}

    def feasible(self, request: LeaseRequest) -> bool:
        """Return whether some place that the request may use could hold it when empty."""
        if request.group is not None:
            places = [
                bundle.allocation
                for index, bundle in self.bundles.get(request.group, {}).items()
                if request.bundle in (-1, index) and bundle.node not in self.draining
            ]
            return any(ResourcePool.of(held).fits_ever(request.wanted) for held in places)
        placement = placement_of(request.strategy)
        return any(
            ResourcePool(quantities(total)).fits_ever(request.wanted)
            for node, total in self.nodes.items()
            if node not in self.draining and self._wrong_node(placement, node) is None
        )

    def group_fits(self, id: GroupId) -> bool:
        """Return whether what a group waits for would fit into what is free now."""
        pools: dict[NodeId, ResourcePool] = {}
        for node in self.nodes.keys() - self.draining:
            pool = pools[node] = ResourcePool(quantities(self.nodes[node]))
            for bundle in self._bundles_on(node):
                pool.take(bundle.allocation)
            for lease in self._on(node):
                if self.requests[lease].group is None:
                    pool.take(self.granted[lease].allocation)
        beside = [bundle.node for bundle in self.bundles[id].values()]
        request = self.groups[id]

        def right(number: int, node: NodeId) -> bool:
            return self._wrong_for_bundle(request, number, node) is None

        return not isinstance(pack(self.missing_bundles(id), request.strategy, pools, beside, right), Misfit)

    def _wrong_for_bundle(self, request: GroupRequest, number: int, node: NodeId) -> str | None:
        labels = request.labels[number] if number < len(request.labels) else {}
        return self._wrong_node(Placement(hard=conditions(labels)), node)

    # -- instructions ----------------------------------------------------------------------------------------------

    def check(self, instruction: Instruction, event: Event) -> None:
        """Raise AssertionError when an answer breaks a promise, else note what it changes."""
        what = f"after {event} the scheduler said {instruction}"
        assert not isinstance(event, (LeaseHeld, GroupHeld)), f"{what}: what is held is answered by nothing"
        if isinstance(instruction, Grant):
            self._check_grant(instruction, what)
        elif isinstance(instruction, PlaceGroup):
            self._check_group(instruction, what)
        elif isinstance(instruction, Reclaim):
            assert instruction.id in self.granted, f"{what}: nobody holds that lease"
            actor = self.requests[instruction.id].for_actor
            assert not actor, f"{what}: it is an actor's, which is never asked back"
            self.reclaimed.append(instruction.id)
        elif isinstance(instruction, Preempt):
            assert instruction.id in self.granted, f"{what}: nobody holds that lease"
            assert self.requests[instruction.id].preemptible, f"{what}: what it runs can't be run again"
            assert instruction.reason.strip(), f"{what}: people will ask for the reason"
            self.preempted.append(instruction.id)
        else:
            raise AssertionError(f"{what}, which is no instruction")

    def check_snapshot(self) -> None:
        """Raise AssertionError when the scheduler's own account differs from this one."""
        snapshot = self.scheduler.snapshot()
        extra = [id.hex() for id in snapshot.granted.keys() - self.granted.keys()]
        assert not extra, f"its snapshot has leases {extra}, which it never granted or which are over"
        lost = [id.hex() for id in self.granted.keys() - snapshot.granted.keys()]
        assert not lost, f"its snapshot lacks leases {lost}, which it granted and which are not over"
        assert snapshot.granted == self.granted, f"its snapshot has {snapshot.granted}, granted are {self.granted}"
        there = {id: {bundle.index: bundle for bundle in bundles} for id, bundles in snapshot.groups.items() if bundles}
        placed = {id: bundles for id, bundles in self.bundles.items() if bundles}
        assert there == placed, f"its snapshot has groups {there}, placed are {placed}"
        wait = {request.id for request in snapshot.waiting_groups}
        missing = {id for id in self.groups if self.missing_bundles(id)}
        assert wait == missing, f"its snapshot has waiting groups {wait}, {missing} wait"
        assert snapshot.total.keys() == self.nodes.keys(), f"its snapshot has nodes {list(snapshot.total)}"
        for node, total in self.nodes.items():
            shown = {name: units for name, units in snapshot.total[node].items() if units}
            assert shown == total, f"its snapshot has {shown} in all on node {node.hex()}, but it is {total}"
            free = {name: units for name, units in snapshot.available[node].items() if units}
            held = [self.granted[id].allocation for id in self._on(node)]
            held += [bundle.allocation for bundle in self._bundles_on(node)]
            names = total.keys() | free.keys() | {name for allocation in held for name in allocation.amounts}
            rest = {name: units for name in names if (units := total.get(name, 0) - self.used(node, name))}
            assert free == rest, f"its snapshot has {free} free on node {node.hex()}, but it is {rest}"

    def _check_grant(self, grant: Grant, what: str) -> None:
        assert grant.id in self.requests, f"{what}: nobody asked for that"
        assert grant.id not in self.order, f"{what}: it was granted before"
        assert grant.id in self.waiting, f"{what}: it was cancelled"
        self._check_node(grant.node, what)
        request = self.waiting.pop(grant.id)
        _check_amounts(grant.allocation, request.wanted, what)
        self.granted[grant.id] = grant
        self.order.append(grant.id)
        if request.group is not None:
            self._check_in_bundle(grant, request, what)
            return
        wrong = self._wrong_node(placement_of(request.strategy), grant.node)
        assert wrong is None, f"{what}: {wrong}"
        assert grant.bundle == -1, f"{what}: the request names no placement group"
        self._check_room(grant.node, grant.allocation, what)

    def _check_node(self, node: NodeId, what: str) -> None:
        assert node in self.nodes, f"{what}: there is no such node"
        assert node not in self.draining, f"{what}: the node is about to leave"

    def _wrong_node(self, placement: Placement, node: NodeId) -> str | None:
        if placement.problem:
            return f"nobody can know where it may go: {placement.problem}"
        if placement.node is not None and not placement.soft and placement.node != node:
            return f"it may only go to node {placement.node.hex()}"
        if not placement.suits(self.labels[node]):
            return f"it wants a node with {placement.wanted_labels}, not {self.labels[node]}"
        return None

    def _check_in_bundle(self, grant: Grant, request: LeaseRequest, what: str) -> None:
        assert request.group is not None
        bundle = self.bundles.get(request.group, {}).get(grant.bundle)
        assert bundle is not None, f"{what}: bundle {grant.bundle} of its group is not placed"
        assert request.bundle in (-1, grant.bundle), f"{what}: it wants bundle {request.bundle}"
        assert bundle.node == grant.node, f"{what}: bundle {grant.bundle} is on node {bundle.node.hex()}"
        inside = [
            id
            for id, other in self.granted.items()
            if self.requests[id].group == request.group and other.bundle == grant.bundle
        ]
        for name in request.wanted:
            used = sum(self._counts(id, name) for id in inside)
            has = bundle.allocation.amounts.get(name, 0)
            assert used <= has, f"{what}: {used} units of {name} are now in use in the bundle, which has {has}"
        _check_devices(grant.allocation, [self.granted[id].allocation for id in inside], what)
        for name, shares in grant.allocation.devices.items():
            own = bundle.allocation.devices.get(name, {})
            assert shares.keys() <= own.keys(), f"{what}: the bundle has {name} {sorted(own)}"

    def _check_group(self, placed: PlaceGroup, what: str) -> None:
        assert placed.id in self.groups, f"{what}: there is no such group (any more)"
        request, missing = self.groups[placed.id], self.missing_bundles(placed.id)
        numbers = [bundle.index for bundle in placed.bundles]
        assert sorted(numbers) == sorted(missing), f"{what}: bundles {sorted(missing)} have no place, all or none"
        for bundle in placed.bundles:
            self._check_node(bundle.node, what)
            wrong = self._wrong_for_bundle(request, bundle.index, bundle.node)
            assert wrong is None, f"{what}: {wrong}"
            _check_amounts(bundle.allocation, missing[bundle.index], what)
            self.bundles[placed.id][bundle.index] = bundle
            self._check_room(bundle.node, bundle.allocation, what)
        nodes = [bundle.node for bundle in self.bundles[placed.id].values()]
        alone = len(set(nodes)) == len(nodes)
        assert request.strategy != STRICT_PACK or len(set(nodes)) == 1, f"{what}: they must be on one node"
        assert request.strategy != STRICT_SPREAD or alone, f"{what}: each must be on a node of its own"

    # -- sums ------------------------------------------------------------------------------------------------------

    def _check_room(self, node: NodeId, allocation: Allocation, what: str) -> None:
        for name in allocation.amounts:
            used, total = self.used(node, name), self.nodes[node].get(name, 0)
            assert used <= total, f"{what}: {used} units of {name} are now in use, the node has {total}"
        leases = [self.granted[id].allocation for id in self._on(node) if self.requests[id].group is None]
        _check_devices(allocation, [*leases, *(bundle.allocation for bundle in self._bundles_on(node))], what)

    def _on(self, node: NodeId) -> list[LeaseId]:
        return [id for id, grant in self.granted.items() if grant.node == node]

    def _bundles_on(self, node: NodeId) -> list[Bundle]:
        return [bundle for group in self.bundles.values() for bundle in group.values() if bundle.node == node]

    def _counts(self, id: LeaseId, name: str) -> int:
        return 0 if name == CPU and id in self.blocked else self.granted[id].allocation.amounts.get(name, 0)


def _check_amounts(allocation: Allocation, wanted: Amounts, what: str) -> None:
    held = {name: units for name, units in allocation.amounts.items() if units}
    asked = {name: units for name, units in wanted.items() if units}
    assert held == asked, f"{what}: {asked} was asked for"
    gpus, shares = held.get("GPU", 0), allocation.devices.get("GPU", {})
    assert sum(shares.values()) == gpus, f"{what}: its devices add up to {sum(shares.values())} units"
    if gpus >= UNIT:
        assert all(units == UNIT for units in shares.values()), f"{what}: whole devices were asked for"
    else:
        assert len(shares) <= 1, f"{what}: a share must lie on one device"


def _check_devices(allocation: Allocation, held: Iterable[Allocation], what: str) -> None:
    everybody = list(held)
    for index in allocation.devices.get("GPU", {}):
        on_device = sum(other.devices.get("GPU", {}).get(index, 0) for other in everybody)
        assert on_device <= UNIT, f"{what}: device {index} is now held {on_device / UNIT:g} times"

"""Count the CPUs that workers lend while they wait, and decide when each may go on. A pure state machine.

A scheduler counts the CPU of a worker as used again as soon as the worker has what it waited for, although another
worker may be using that CPU. So that the two do not run at the same time, a waiting worker is notified when its CPU is
in use; from then on it asks before it goes on, until that was granted once. Most workers never need to ask. A worker
waits for CPUs of tasks only, because tasks end; actors and bundles keep their CPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any

from kernel_spec import scheduling as contract
from kernel_spec.dataclass import dataclass
from kernel_spec.ids import GroupId, LeaseId, NodeId
from kernel_spec.resources import CPU, to_units


@dataclass(frozen=True, slots=True)
class CpuTaken:
    """Notify the worker of this lease that its lent CPU is in use: the worker must ask before it goes on."""

    id: LeaseId


@dataclass(frozen=True, slots=True)
class GoOn:
    """Let the worker of this lease, which has asked, go on."""

    id: LeaseId


@dataclass(frozen=True, slots=True)
class ReclaimCpu:
    """A worker waits for the CPU of this lease: have it returned when the tasks sent to its worker have ended."""

    id: LeaseId


Instruction = CpuTaken | GoOn | ReclaimCpu


@dataclass(slots=True, eq=False)
class _CpuPool:
    """Counts the CPUs of a node or of a bundle, in units, and holds the leases of tasks there.

    `capacity` excludes CPUs of actors and bundles. `lent` are leases whose workers wait and were not notified yet,
    `largest` is an upper bound of the CPU that one has lent; `waiting` are those whose workers have asked, in order.
    """

    capacity: int = 0
    used: int = 0
    running: dict[LeaseId, int] = field(default_factory=dict)
    lent: dict[LeaseId, int] = field(default_factory=dict)
    largest: int = 0
    waiting: dict[LeaseId, int] = field(default_factory=dict)
    asked_back: set[LeaseId] = field(default_factory=set)
    told: set[LeaseId] = field(default_factory=set)
    """Leases whose workers know that they must ask before they go on."""

    def lend(self, id: LeaseId, units: int) -> None:
        """The worker of a lease waits: others may use its CPU."""
        if id not in self.told:
            self.lent[id] = units
            self.largest = max(self.largest, units)

    def forget(self, id: LeaseId) -> None:
        """A lease is over."""
        self.leave(id)
        self.asked_back.discard(id)
        self.told.discard(id)

    def run(self, id: LeaseId, units: int) -> None:
        self.running[id] = units
        self.used += units

    def leave(self, id: LeaseId) -> None:
        """Take a lease out, whatever it does."""
        self.used -= self.running.pop(id, 0)
        self.lent.pop(id, None)
        self.waiting.pop(id, None)

    def decide(self) -> list[Instruction]:
        """Say what follows from what is used now."""
        steps: list[Instruction] = []
        while self.waiting:
            id, units = next(iter(self.waiting.items()))
            if self.used and self.used + units > self.capacity:
                steps += [ReclaimCpu(id) for id in self.running.keys() - self.asked_back]
                self.asked_back.update(self.running)
                break
            del self.waiting[id]
            self.told.discard(id)
            self.run(id, units)
            steps.append(GoOn(id))
        if self.lent and self.used + self.largest > self.capacity:
            steps += self._tell_who_lent()
        return steps

    def _tell_who_lent(self) -> list[Instruction]:
        free = self.capacity - self.used
        told = [id for id, units in self.lent.items() if units > free]
        self.told.update(told)
        for id in told:
            del self.lent[id]
        self.largest = max(self.lent.values(), default=0)
        return [CpuTaken(id) for id in told]


@dataclass(slots=True, eq=False)
class _Lease:
    place: _CpuPool
    units: int
    for_actor: bool
    blocked: bool = False
    asks: bool = False


class LentCpus:
    """Tracks for each lease whether its worker uses its CPU. Must get all events and answers of the scheduler."""

    def __init__(self) -> None:
        self._totals: dict[NodeId, int] = {}
        self._places: dict[tuple[NodeId, GroupId | None, int], _CpuPool] = {}
        self._leases: dict[LeaseId, _Lease] = {}
        self._bundles: dict[GroupId, list[contract.Bundle]] = {}
        self._handlers: dict[type, Callable[[Any], list[Instruction]]] = {
            contract.NodeAdded: lambda event: self._set_total(event.node, to_units(event.total.get(CPU, 0.0))),
            contract.NodeRemoved: lambda event: self._remove_node(event.node),
            contract.ResourceChanged: self._resource_changed,
            contract.PlaceGroup: lambda step: self._place_bundles(step.id, step.bundles),
            contract.LeaseHeld: self._held,
            contract.LeaseReleased: lambda event: self._release(event.id),
            contract.LeaseBlocked: lambda event: self._block(event.id),
            contract.LeaseUnblocked: lambda event: self._unblock(event.id),
            contract.GroupHeld: lambda event: self._place_bundles(event.request.id, event.bundles),
            contract.GroupRemoved: lambda event: self._remove_group(event.id),
        }

    def see(self, word: contract.Event | contract.Instruction) -> list[Instruction]:
        """Take in an event, or what a scheduler answered (grants: see `grant`)."""
        handler = self._handlers.get(type(word))
        return handler(word) if handler is not None else []

    def grant(self, request: contract.LeaseRequest, grant: contract.Grant) -> list[Instruction]:
        """A lease was granted."""
        units = grant.allocation.amounts.get(CPU, 0)
        if not units or request.id in self._leases or (request.group is not None and grant.bundle < 0):
            return []
        place = self._place(grant.node, request.group, grant.bundle if request.group is not None else -1)
        self._leases[request.id] = _Lease(place, units, request.for_actor)
        if request.for_actor:
            place.capacity -= units
        else:
            place.run(request.id, units)
        return place.decide()

    def ask(self, id: LeaseId) -> None:
        """The worker of a lease, which has what it waited for (that event comes next), asks whether it may go on."""
        if id in self._leases:
            self._leases[id].asks = True

    def _unblock(self, id: LeaseId) -> list[Instruction]:
        lease = self._leases.get(id)
        if lease is None:
            return []
        if lease.for_actor:
            lease.place.capacity -= lease.units if lease.blocked else 0
            lease.blocked = False
            return lease.place.decide()
        if lease.asks:
            lease.place.leave(id)
            lease.place.waiting[id] = lease.units
        elif lease.blocked or id in lease.place.waiting:
            lease.place.leave(id)
            lease.place.run(id, lease.units)
        lease.blocked = lease.asks = False
        return lease.place.decide()

    def _block(self, id: LeaseId) -> list[Instruction]:
        lease = self._leases.get(id)
        if lease is None or lease.blocked:
            return []
        lease.blocked = True
        if lease.for_actor:
            lease.place.capacity += lease.units
        else:
            lease.place.leave(id)
            lease.place.lend(id, lease.units)
        return lease.place.decide()

    def _release(self, id: LeaseId) -> list[Instruction]:
        lease = self._leases.pop(id, None)
        if lease is None:
            return []
        if lease.for_actor:
            lease.place.capacity += 0 if lease.blocked else lease.units
        else:
            lease.place.forget(id)
        return lease.place.decide()

    def _held(self, event: contract.LeaseHeld) -> list[Instruction]:
        steps = self.grant(event.request, event.grant)
        return [*steps, *self._block(event.request.id)] if event.blocked else steps

    def _place(self, node: NodeId, group: GroupId | None = None, bundle: int = -1) -> _CpuPool:
        return self._places.setdefault((node, group, bundle), _CpuPool())

    def _set_total(self, node: NodeId, units: int) -> list[Instruction]:
        place = self._place(node)
        place.capacity += units - self._totals.get(node, 0)
        self._totals[node] = units
        return place.decide()

    def _resource_changed(self, event: contract.ResourceChanged) -> list[Instruction]:
        return self._set_total(event.node, to_units(event.quantity)) if event.name == CPU else []

    def _remove_node(self, node: NodeId) -> list[Instruction]:
        self._totals.pop(node, None)
        gone = [self._places.pop(key) for key in list(self._places) if key[0] == node]
        for id in [id for id, lease in self._leases.items() if lease.place in gone]:
            del self._leases[id]
        for group, bundles in self._bundles.items():
            self._bundles[group] = [bundle for bundle in bundles if bundle.node != node]
        return []

    def _place_bundles(self, group: GroupId, bundles: Iterable[contract.Bundle]) -> list[Instruction]:
        steps: list[Instruction] = []
        for bundle in bundles:
            units = bundle.allocation.amounts.get(CPU, 0)
            self._bundles.setdefault(group, []).append(bundle)
            self._place(bundle.node, group, bundle.index).capacity += units
            node = self._place(bundle.node)
            node.capacity -= units
            steps += node.decide()
        return steps

    def _remove_group(self, group: GroupId) -> list[Instruction]:
        steps: list[Instruction] = []
        for bundle in self._bundles.pop(group, ()):
            self._places.pop((bundle.node, group, bundle.index), None)
            node = self._place(bundle.node)
            node.capacity += bundle.allocation.amounts.get(CPU, 0)
            steps += node.decide()
        return steps

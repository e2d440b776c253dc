"""An account of who holds what, kept beside the scheduler's own: no node may hold more than it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kernel_spec import scheduling as contract
from kernel_spec.errors import ContractError
from kernel_spec.ids import GroupId, LeaseId, NodeId
from kernel_spec.resources import CPU, UNIT, Allocation, Amounts, amounts, describe

Where = tuple[NodeId, GroupId | None, int]
"""What leases take from: a node (no group, -1), or a bundle of a group on it."""


class Audit:
    """Checks each answer against what is held. Raises ContractError for what can't be."""

    def __init__(self) -> None:
        self._totals: dict[NodeId, Amounts] = {}
        self._draining: set[NodeId] = set()
        self._used: dict[Where, Counter[str]] = {}
        self._devices: dict[Where, Counter[tuple[str, int]]] = {}
        self._leases: dict[LeaseId, tuple[Where, Allocation]] = {}
        self._blocked: set[LeaseId] = set()
        self._bundles: dict[GroupId, list[contract.Bundle]] = {}
        self._handlers: Mapping[type, Callable[[Any], None]] = {
            contract.NodeAdded: self._node_added,
            contract.NodeRemoved: self._node_removed,
            contract.NodeDraining: lambda event: self._draining.add(event.node),
            contract.DrainCancelled: lambda event: self._draining.discard(event.node),
            contract.ResourceChanged: self._resource_changed,
            contract.LeaseReleased: lambda event: self._release(event.id),
            contract.LeaseBlocked: lambda event: self._block(event.id, True),
            contract.LeaseUnblocked: lambda event: self._block(event.id, False),
            contract.GroupRemoved: self._group_removed,
        }

    def note(self, event: contract.Event) -> None:
        """Take an event that the scheduler is about to be told."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    # -- answers ---------------------------------------------------------------------------------------------------

    def check_grant(self, request: contract.LeaseRequest, grant: contract.Grant, who: str) -> None:
        """Count a grant. Raises ContractError when it is not what was asked for, or more than there is."""
        held = grant.allocation
        where = (grant.node, request.group, grant.bundle)
        if _non_zero(held.amounts) != _non_zero(request.wanted):
            raise ContractError(f"{who} returned {grant}, but {describe(request.wanted)} was asked for")
        if grant.node in self._draining:
            raise ContractError(f"{who} returned {grant}, but that node is draining")
        if request.group is not None:
            self._check_bundle(request, grant, f"{who} returned {grant}")
        self._take(where, held, f"{who} returned {grant}")
        self._leases[grant.id] = where, held

    def _check_bundle(self, request: contract.LeaseRequest, grant: contract.Grant, said: str) -> None:
        assert request.group is not None
        if request.bundle not in (-1, grant.bundle):
            raise ContractError(f"{said}, but bundle {request.bundle} was asked for")
        nodes = {bundle.index: bundle.node for bundle in self._bundles.get(request.group, ())}
        if nodes.get(grant.bundle) != grant.node:
            raise ContractError(f"{said}, but bundle {grant.bundle} of its group is not there")

    def check_group(
        self,
        request: contract.GroupRequest,
        held: Iterable[contract.Bundle],
        place: contract.PlaceGroup,
        who: str,
    ) -> None:
        """Count the bundles of a group. Raises ContractError when they are not as asked for, or more than there is."""
        said = f"{who} returned {place}"
        for bundle in place.bundles:
            if bundle.node in self._draining or bundle.node not in self._totals:
                raise ContractError(f"{said}, but node {bundle.node.hex()} is draining or gone")
            if _non_zero(bundle.allocation.amounts) != _non_zero(request.bundles[bundle.index]):
                wanted = describe(request.bundles[bundle.index])
                raise ContractError(f"{said}, but bundle {bundle.index} asks for {wanted}")
            self._take((bundle.node, None, -1), bundle.allocation, said)
        self._bundles.setdefault(request.id, []).extend(place.bundles)
        nodes = [bundle.node for bundle in (*held, *place.bundles)]
        if request.strategy == contract.STRICT_PACK and len(set(nodes)) > 1:
            raise ContractError(f"{said}, but {request.strategy} wants all bundles on one node")
        if request.strategy == contract.STRICT_SPREAD and len(set(nodes)) < len(nodes):
            raise ContractError(f"{said}, but {request.strategy} wants each bundle on a node of its own")

    def check_empty(self, snapshot: contract.SchedulerSnapshot, held: int, who: str) -> None:
        """Raise ContractError when nothing is held any more and the scheduler says otherwise."""
        if held:
            return
        for node, total in snapshot.total.items():
            free = _non_zero(snapshot.available[node])
            if free != _non_zero(total):
                raise ContractError(
                    f"{who} says that node {node.hex()} has {describe(free)} free of {describe(total)}, "
                    "but everything has been given back"
                )

    def _take(self, where: Where, held: Allocation, said: str) -> None:
        used = self._used.setdefault(where, Counter())
        has = self._has(where)
        for name, units in held.amounts.items():
            if units and used[name] + units > has.get(name, 0):
                beside = describe({name: used[name]})
                raise ContractError(f"{said}, but beside {beside} in use there is only {describe(has)}")
            used[name] += units
        devices = self._devices.setdefault(where, Counter())
        for name, shares in held.devices.items():
            for index, units in shares.items():
                devices[name, index] += units
                if devices[name, index] > UNIT:
                    raise ContractError(f"{said}, but {name} {index} is then held more than once")

    def _has(self, where: Where) -> Mapping[str, int]:
        node, group, index = where
        if group is None:
            return self._totals[node]
        return next(bundle.allocation.amounts for bundle in self._bundles[group] if bundle.index == index)

    # -- events ----------------------------------------------------------------------------------------------------

    def _node_added(self, event: contract.NodeAdded) -> None:
        self._totals[event.node] = amounts(event.total)

    def _resource_changed(self, event: contract.ResourceChanged) -> None:
        self._totals[event.node] = amounts({event.name: event.quantity}) | {
            name: units for name, units in self._totals[event.node].items() if name != event.name
        }

    def _node_removed(self, event: contract.NodeRemoved) -> None:
        del self._totals[event.node]
        self._draining.discard(event.node)
        for kept in (self._used, self._devices):
            for where in [where for where in kept if where[0] == event.node]:
                del kept[where]
        for id in [id for id, (where, _) in self._leases.items() if where[0] == event.node]:
            del self._leases[id]
            self._blocked.discard(id)
        for group, bundles in self._bundles.items():
            self._bundles[group] = [bundle for bundle in bundles if bundle.node != event.node]

    def _release(self, id: LeaseId) -> None:
        if id in self._leases:
            self._block(id, False)
            where, held = self._leases.pop(id)
            self._give_back(where, held)

    def _group_removed(self, event: contract.GroupRemoved) -> None:
        for bundle in self._bundles.pop(event.id, ()):
            self._give_back((bundle.node, None, -1), bundle.allocation)
            self._used.pop((bundle.node, event.id, bundle.index), None)
            self._devices.pop((bundle.node, event.id, bundle.index), None)

    def _give_back(self, where: Where, held: Allocation) -> None:
        self._used[where].subtract(held.amounts)
        for name, shares in held.devices.items():
            for index, units in shares.items():
                self._devices[where][name, index] -= units

    def _block(self, id: LeaseId, blocked: bool) -> None:
        if id not in self._leases or (id in self._blocked) == blocked:
            return
        where, held = self._leases[id]
        lent = held.amounts.get(CPU, 0)
        self._used[where][CPU] += -lent if blocked else lent
        (self._blocked.add if blocked else self._blocked.discard)(id)


def _non_zero(held: Mapping[str, int]) -> Amounts:
    return {name: units for name, units in held.items() if units}

"""Leases, the places they are granted from, and placement groups: what a `Ledger` holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from kernel_spec.dataclass import dataclass
from kernel_spec.ids import GroupId, LeaseId, NodeId
from kernel_spec.placement import Condition, conditions, load
from kernel_spec.resources import CPU, UNIT, Amounts, ResourcePool
from kernel_spec.scheduling import Bundle, Grant, GroupRequest, LeaseRequest


@dataclass(slots=True, eq=False)
class Lease:
    """A granted lease. `number` counts grants. If it is `blocked`, its worker waits and its CPU is lent to others."""

    request: LeaseRequest
    grant: Grant
    place: Place
    number: int
    blocked: bool = False

    @property
    def lent(self) -> int:
        """Units of CPU that are lent to others."""
        return self.grant.allocation.amounts.get(CPU, 0) if self.blocked else 0

    def holds(self, name: str) -> int:
        """Return the units of a resource that are unavailable to others."""
        return self.grant.allocation.amounts.get(name, 0) - (self.lent if name == CPU else 0)

    def stuck(self) -> Amounts:
        """Return the resources that will not be released soon: an actor's, and those a blocked worker has not lent."""
        if not (self.blocked or self.request.for_actor):
            return {}
        held = self.grant.allocation.amounts
        return {name: units for name, units in held.items() if not (self.blocked and name == CPU)}


@dataclass(slots=True, eq=False)
class Place:
    """Resources that leases are granted from: a node's own, or those of one bundle.

    `stuck` are resources that will not be released soon: those of actors, bundles and blocked workers.
    """

    node: NodeId
    pool: ResourcePool
    leases: dict[LeaseId, Lease] = field(default_factory=dict)
    stuck: Amounts = field(default_factory=dict)

    def count_stuck(self, amounts: Mapping[str, int], sign: int) -> None:
        """Add amounts to `stuck`, or subtract them (`sign` -1)."""
        for name, units in amounts.items():
            self.stuck[name] = self.stuck.get(name, 0) + sign * units

    def could_free(self, wanted: Mapping[str, int]) -> bool:
        """Return whether `wanted` would fit once every lease that may end on its own has ended."""
        if not self.pool.fits_ever(wanted):
            return False
        total = self.pool.total
        return all(total.get(name, 0) - self.stuck.get(name, 0) >= units for name, units in wanted.items())


@dataclass(slots=True, eq=False)
class NodePlace(Place):
    """A node. `number` counts nodes in the order they came."""

    number: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    draining: bool = False
    bundles: dict[tuple[GroupId, int], BundlePlace] = field(default_factory=dict)

    def load(self) -> float:
        """Return how full the node is (see `kernel_spec.placement`); the number of holders breaks ties."""
        return load(self.pool) + (len(self.leases) + len(self.bundles)) * 1e-9


@dataclass(slots=True, eq=False)
class BundlePlace(Place):
    """A bundle of a placement group, on its node."""

    group: GroupId = field(kw_only=True)
    bundle: Bundle = field(kw_only=True)


@dataclass(slots=True, eq=False)
class Group:
    """A placement group, and those of its bundles that are placed, by number."""

    request: GroupRequest
    bundles: dict[int, BundlePlace] = field(default_factory=dict)

    def waiting(self) -> dict[int, Amounts]:
        """Return the bundles that are not placed, or whose node was lost, by number."""
        return {index: wanted for index, wanted in enumerate(self.request.bundles) if index not in self.bundles}

    def labels_of(self, number: int) -> tuple[Condition, ...]:
        """Return the conditions on the labels of a bundle's node."""
        labels = self.request.labels
        return conditions(labels[number]) if number < len(labels) else ()


def check_place(place: Place) -> None:
    """Raise AssertionError unless the free and the held resources of a place add up to its total."""
    pool, label = place.pool, f"node {place.node.hex()}"
    if isinstance(place, BundlePlace):
        label += f", bundle {place.bundle.index} of group {place.group.hex()}"
    pool.validate()
    used: Amounts = {}
    stuck: Amounts = {}
    devices: dict[tuple[str, int], int] = {}
    bundles = place.bundles.values() if isinstance(place, NodePlace) else ()
    held = [(lease.grant.allocation, lease.lent, lease.stuck()) for lease in place.leases.values()]
    held += [(each.bundle.allocation, 0, each.bundle.allocation.amounts) for each in bundles]
    for allocation, lent, stays in held:
        for name, units in allocation.amounts.items():
            used[name] = used.get(name, 0) + units - (lent if name == CPU else 0)
        for name, units in stays.items():
            stuck[name] = stuck.get(name, 0) + units
        for name, shares in allocation.devices.items():
            for index, units in shares.items():
                devices[name, index] = devices.get((name, index), 0) + units
    for name in pool.total.keys() | pool.available.keys() | used.keys():
        expected = pool.total.get(name, 0) - used.get(name, 0)
        free = pool.available.get(name, 0)
        assert free == expected, f"{label}: {name} should have {expected} units free, has {free}"
    for (name, index), units in devices.items():
        assert units <= UNIT, f"{label}: {name} {index} is held {units} times 1/{UNIT}"
    counted = {name: units for name, units in place.stuck.items() if units}
    assert counted == {name: units for name, units in stuck.items() if units}, f"{label}: stuck {counted}, not {stuck}"

"""Quantities of resources, exact to one ten-thousandth, and a node's pool of them.

Every scheduler counts with these, so that fractions add up exactly (three thirds of a GPU never exceed one) and
so that a share of a device always lies on one device. Amounts are integers in units of 1/10000.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field

from kernel_spec.dataclass import dataclass

UNIT = 10_000
"""Number of integer units of one whole resource."""

CPU = "CPU"
GPU = "GPU"
MEMORY = "memory"
OBJECT_STORE_MEMORY = "object_store_memory"

Amounts = dict[str, int]
"""Resource name to integer units."""


def to_units(quantity: float) -> int:
    """Return `quantity` in integer units.

    Rounds to the nearest unit. Raises ValueError when it is negative, not finite, or so small that nothing is left.
    """
    if not 0 <= quantity < math.inf:
        raise ValueError(f"a resource quantity must be a finite number, zero or more, not {quantity!r}")
    units = round(quantity * UNIT)
    if quantity > 0 and units == 0:
        raise ValueError(f"a resource quantity can't be finer than {1 / UNIT}, got {quantity!r}")
    return units


def from_units(units: int) -> float:
    """Convert integer units into a quantity."""
    return units / UNIT


def amounts(quantities: Mapping[str, float]) -> Amounts:
    """Return the exact form of a mapping such as `{"CPU": 0.5}`; zero entries are left out."""
    return {name: units for name, quantity in quantities.items() if (units := to_units(quantity))}


def quantities(exact: Mapping[str, int]) -> dict[str, float]:
    """Return exact amounts as plain floats, for printing."""
    return {name: from_units(units) for name, units in exact.items()}


def describe(exact: Mapping[str, int]) -> str:
    """Return amounts as text: `CPU: 1, GPU: 0.5`, or `nothing`."""
    return ", ".join(f"{name}: {units / UNIT:g}" for name, units in sorted(exact.items())) or "nothing"


@dataclass(frozen=True, slots=True)
class Allocation:
    """The resources that one lease holds on one node.

    `devices` maps a resource that comes in separate devices (a GPU) to `{device index: units}`.
    """

    amounts: Amounts
    devices: dict[str, dict[int, int]] = field(default_factory=dict)


class ResourcePool:
    """The total and the free resources of one node. A pure state machine; `validate()` states its invariants.

    `device_resources` names the resources that come in separate devices (accelerators): a request for a whole
    number of them gets whole devices, a request below one gets its share of a single device, and one and a half
    can never be had. A total that is not whole (`{"GPU": 1.5}`) makes the last device a smaller one.
    """

    def __init__(self, total: Mapping[str, float], device_resources: Iterable[str] = (GPU,)) -> None:
        self.total: Amounts = amounts(total)
        self.available: Amounts = dict(self.total)
        self._device_resources = frozenset(device_resources)
        # Free units and size of each device. A device that the node lost keeps its place, with size zero.
        self._devices: dict[str, list[int]] = {
            name: _device_sizes(self.total[name]) for name in self._device_resources if name in self.total
        }
        self._sizes: dict[str, list[int]] = {name: list(shares) for name, shares in self._devices.items()}

    @classmethod
    def of(cls, allocation: Allocation, device_resources: Iterable[str] = (GPU,)) -> ResourcePool:
        """Return a pool of the resources of `allocation`, all free, whose devices keep their numbers."""
        pool = cls({}, device_resources)
        pool.total, pool.available = dict(allocation.amounts), dict(allocation.amounts)
        for name, chosen in allocation.devices.items():
            pool._sizes[name] = [chosen.get(index, 0) for index in range(max(chosen, default=-1) + 1)]
            pool._devices[name] = list(pool._sizes[name])
        return pool

    def copy(self) -> ResourcePool:
        """Return an independent pool in the same state, to try something out on."""
        other = ResourcePool({}, self._device_resources)
        other.total, other.available = dict(self.total), dict(self.available)
        other._devices = {name: list(shares) for name, shares in self._devices.items()}
        other._sizes = {name: list(sizes) for name, sizes in self._sizes.items()}
        return other

    def emptied(self) -> ResourcePool:
        """Return an independent pool with the same totals, in which everything is free."""
        other = self.copy()
        other.available = dict(self.total)
        other._devices = {name: list(sizes) for name, sizes in self._sizes.items()}
        return other

    @property
    def device_resources(self) -> frozenset[str]:
        """Names of the resources that come in devices here."""
        return self._device_resources

    def fits_ever(self, wanted: Mapping[str, int]) -> bool:
        """Return whether this node could hold `wanted` when empty."""
        for name, units in wanted.items():
            if name in self._device_resources:
                if units and not self._usable(name, units, self._sizes):
                    return False
            elif units > self.total.get(name, 0):
                return False
        return True

    def missing(self, wanted: Mapping[str, int]) -> Amounts:
        """Return the amounts by which `wanted` exceeds the free resources (empty when it fits).

        Only usable parts of devices count: two half-free GPUs are not one free GPU. What is still in use on devices
        that the node has lost counts against those that it has.
        """
        missing: Amounts = {}
        for name, units in wanted.items():
            free = self.available.get(name, 0)
            if name in self._device_resources:
                free = min(free, self._best_free(name, units))
            if units and units > free:
                missing[name] = units - free
        return missing

    def shortage(self, allocation: Allocation) -> int:
        """Return the units by which exactly this allocation, on its devices, exceeds the free resources."""
        pairs = [(units, self.available.get(name, 0)) for name, units in allocation.amounts.items()]
        for name, chosen in allocation.devices.items():
            shares = dict(enumerate(self._devices.get(name, ())))
            pairs += [(units, shares.get(index, 0)) for index, units in chosen.items()]
        return sum(max(0, units - free) for units, free in pairs)

    def acquire(self, wanted: Mapping[str, int]) -> Allocation | None:
        """Take `wanted` and return the allocation, or return None and change nothing."""
        free = self.available
        for name, units in wanted.items():
            if units and units > free.get(name, 0):
                return None
        devices: dict[str, dict[int, int]] = {}
        for name in self._device_resources.intersection(wanted):
            if not wanted[name]:
                continue
            chosen = self._choose_devices(name, wanted[name])
            if chosen is None:
                return None
            devices[name] = chosen
        for name, units in wanted.items():
            if units:
                free[name] -= units
        for name, chosen in devices.items():
            for index, units in chosen.items():
                self._devices[name][index] -= units
        return Allocation({name: units for name, units in wanted.items() if units}, devices)

    def take(self, allocation: Allocation) -> None:
        """Take exactly `allocation`, even if it is not free: `available` may go below zero until others finish."""
        for name, units in allocation.amounts.items():
            self.available[name] = self.available.get(name, 0) - units
        for name, chosen in allocation.devices.items():
            shares, sizes = self._devices.setdefault(name, []), self._sizes.setdefault(name, [])
            unknown = max(chosen, default=-1) + 1 - len(shares)
            shares += [0] * unknown
            sizes += [0] * unknown
            for index, units in chosen.items():
                shares[index] -= units

    def release(self, allocation: Allocation) -> None:
        """Give back all resources of `allocation`."""
        for name, units in allocation.amounts.items():
            self.available[name] = self.available.get(name, 0) + units
        for name, chosen in allocation.devices.items():
            for index, units in chosen.items():
                self._devices[name][index] += units

    def lend(self, name: str, units: int) -> None:
        """Free `units` of `name` while their holder is blocked (see `reclaim`).

        Raises ValueError for a resource that comes in devices: a share of a device can't be lent.
        """
        self._refuse_device(name, "lent")
        self.available[name] = self.available.get(name, 0) + units

    def reclaim(self, name: str, units: int) -> None:
        """Take lent units back at once; `available` may go below zero until others finish.

        Raises ValueError for a resource that comes in devices.
        """
        self._refuse_device(name, "lent")
        self.available[name] = self.available.get(name, 0) - units

    def set_total(self, name: str, quantity: float) -> None:
        """Change how much of `name` the node has; zero removes it. Units in use stay in use.

        Raises ValueError for a negative quantity or for a resource that comes in devices.
        """
        self._refuse_device(name, "changed while the node runs")
        units = to_units(quantity)
        difference = units - self.total.get(name, 0)
        free = self.available.get(name, 0) + difference
        if units:
            self.total[name] = units
            self.available[name] = free
        else:
            self.total.pop(name, None)
            if free:
                self.available[name] = free
            else:
                self.available.pop(name, None)

    def resize(self, total: Mapping[str, float]) -> None:
        """Set the node's totals to `total`, devices included. Units in use stay in use, on their devices."""
        exact = amounts(total)
        for name in (self.total.keys() | exact.keys()) - self._device_resources:
            self.set_total(name, total.get(name, 0))
        for name in self._device_resources & (self._devices.keys() | exact.keys()):
            self._resize_devices(name, exact.get(name, 0))

    def validate(self) -> None:
        """Raise AssertionError when free units and device shares do not add up."""
        for name, shares in self._devices.items():
            sizes = self._sizes[name]
            for size, share in zip(sizes, shares, strict=True):
                assert 0 <= size - share <= UNIT, f"{name} shares out of range: {shares} free of {sizes}"
            assert sum(sizes) == self.total.get(name, 0), f"{name}: devices of {sizes}, total {self.total.get(name)}"
            free = self.available.get(name, 0)
            assert sum(shares) == free, f"{name}: {sum(shares)} on devices, {free} free"
        for name, units in self.available.items():
            assert units <= self.total.get(name, 0), f"{name}: {units} free of {self.total.get(name, 0)}"

    def _choose_devices(self, name: str, units: int) -> dict[int, int] | None:
        shares = self._devices.get(name)
        if shares is None:
            return None
        whole, part = divmod(units, UNIT)
        if whole and part:
            return None
        if whole:
            free = [index for index, share in enumerate(shares) if share == UNIT][:whole]
            return dict.fromkeys(free, UNIT) if len(free) == whole else None
        fitting = [(share, index) for index, share in enumerate(shares) if share >= part]
        return {min(fitting)[1]: part} if fitting else None

    def _usable(self, name: str, units: int, devices: Mapping[str, list[int]]) -> bool:
        whole, part = divmod(units, UNIT)
        shares = devices.get(name, [])
        if whole:
            return not part and shares.count(UNIT) >= whole
        return max(shares, default=0) >= part

    def _best_free(self, name: str, units: int) -> int:
        """Return the part of `units` that devices could provide now: whole free ones, or the freest single one."""
        whole, part = divmod(units, UNIT)
        shares = self._devices.get(name, [])
        if whole:
            return 0 if part else UNIT * shares.count(UNIT)
        return max([0, *shares])

    def _resize_devices(self, name: str, units: int) -> None:
        sizes = _device_sizes(units)
        old, shares = self._sizes.setdefault(name, []), self._devices.setdefault(name, [])
        sizes += [0] * (len(old) - len(sizes))
        old += [0] * (len(sizes) - len(old))
        shares += [0] * (len(sizes) - len(shares))
        self._devices[name] = [share + new - was for share, new, was in zip(shares, sizes, old, strict=True)]
        self._sizes[name] = sizes
        self.available[name] = sum(self._devices[name])
        if units:
            self.total[name] = units
        else:
            self.total.pop(name, None)

    def _refuse_device(self, name: str, what: str) -> None:
        if name in self._device_resources:
            raise ValueError(f"{name} comes in devices and can't be {what}")


def _device_sizes(units: int) -> list[int]:
    """Return the size of each device of a total: whole ones, then the rest if there is one."""
    whole, part = divmod(units, UNIT)
    return [UNIT] * whole + ([part] if part else [])

"""Quantities of resources, exact to one ten-thousandth, and a node's pool of them.

Every scheduler counts with these, so that fractions add up exactly (three thirds of a GPU never exceed one) and
so that a share of a device always lies on one device. Amounts are integers in units of 1/10000.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

UNIT = 10_000
"""How many integer units make one whole resource."""

CPU = "CPU"
GPU = "GPU"
MEMORY = "memory"
OBJECT_STORE_MEMORY = "object_store_memory"

Amounts = dict[str, int]
"""Resource name to integer units."""


def to_units(quantity: float) -> int:
    """Return `quantity` in integer units.

    Raises ValueError when it is negative, not a number, or finer than 1/10000.
    """
    units = round(quantity * UNIT)
    if quantity < 0 or quantity != quantity:
        raise ValueError(f"a resource quantity must be zero or more, not {quantity!r}")
    if quantity > 0 and units == 0:
        raise ValueError(f"a resource quantity can't be finer than {1 / UNIT}, got {quantity!r}")
    return units


def from_units(units: int) -> float:
    """Return integer units as the quantity a person wrote."""
    return units / UNIT


def amounts(quantities: Mapping[str, float]) -> Amounts:
    """Return the exact form of a mapping such as `{"CPU": 0.5}`; zero entries are left out."""
    return {name: units for name, quantity in quantities.items() if (units := to_units(quantity))}


def quantities(exact: Mapping[str, int]) -> dict[str, float]:
    """Return exact amounts as plain floats, for printing."""
    return {name: from_units(units) for name, units in exact.items()}


def describe(exact: Mapping[str, int]) -> str:
    """Return amounts as a person would write them: `CPU: 1, GPU: 0.5`, or `nothing`."""
    return ", ".join(f"{name}: {units / UNIT:g}" for name, units in sorted(exact.items())) or "nothing"


@dataclass(frozen=True, slots=True)
class Allocation:
    """What one lease holds on one node.

    `devices` maps a resource that comes in separate devices (a GPU) to `{device index: units}`.
    """

    amounts: Amounts
    devices: dict[str, dict[int, int]] = field(default_factory=dict)


class ResourcePool:
    """What one node has and what of it is free. A pure state machine; `validate()` states its invariants.

    `device_resources` names the resources that come in separate devices (accelerators): a request for a whole
    number of them gets whole devices, a request below one gets its share of a single device.
    """

    def __init__(self, total: Mapping[str, float], device_resources: Iterable[str] = (GPU,)) -> None:
        self.total: Amounts = amounts(total)
        self.available: Amounts = dict(self.total)
        self._device_resources = frozenset(device_resources)
        self._devices: dict[str, list[int]] = {
            name: [UNIT] * (self.total[name] // UNIT) for name in self._device_resources if name in self.total
        }

    def fits_ever(self, wanted: Mapping[str, int]) -> bool:
        """Return whether this node could hold `wanted` when empty."""
        return all(self.total.get(name, 0) >= units for name, units in wanted.items())

    def missing(self, wanted: Mapping[str, int]) -> Amounts:
        """Return what `wanted` needs beyond what is free now (empty when it fits)."""
        free = self.available
        return {name: units - free.get(name, 0) for name, units in wanted.items() if units > free.get(name, 0)}

    def acquire(self, wanted: Mapping[str, int]) -> Allocation | None:
        """Take `wanted` and return the allocation, or return None and change nothing."""
        free = self.available
        for name, units in wanted.items():
            if units > free.get(name, 0):
                return None
        devices: dict[str, dict[int, int]] = {}
        for name in self._device_resources.intersection(wanted):
            chosen = self._choose_devices(name, wanted[name])
            if chosen is None:
                return None
            devices[name] = chosen
        for name, units in wanted.items():
            free[name] -= units
        for name, chosen in devices.items():
            for index, units in chosen.items():
                self._devices[name][index] -= units
        return Allocation(dict(wanted), devices)

    def release(self, allocation: Allocation) -> None:
        """Give back everything that `allocation` holds."""
        for name, units in allocation.amounts.items():
            self.available[name] = self.available.get(name, 0) + units
        for name, chosen in allocation.devices.items():
            for index, units in chosen.items():
                self._devices[name][index] += units

    def lend(self, name: str, units: int) -> None:
        """Free `units` of `name` while their holder is blocked (see `reclaim`)."""
        self.available[name] = self.available.get(name, 0) + units

    def reclaim(self, name: str, units: int) -> None:
        """Take lent units back at once; `available` may go below zero until others finish."""
        self.available[name] = self.available.get(name, 0) - units

    def set_total(self, name: str, quantity: float) -> None:
        """Change how much of `name` the node has; zero removes it. Units in use stay in use.

        Raises ValueError for a negative quantity or for a resource that comes in devices.
        """
        if name in self._devices:
            raise ValueError(f"{name} comes in devices and can't be changed while the node runs")
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

    def validate(self) -> None:
        """Raise AssertionError when free units and device shares do not add up."""
        for name, shares in self._devices.items():
            assert all(0 <= share <= UNIT for share in shares), f"{name} shares out of range: {shares}"
            assert sum(shares) == self.available[name], f"{name}: {sum(shares)} on devices, {self.available[name]} free"
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

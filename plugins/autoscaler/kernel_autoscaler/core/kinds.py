"""The kinds of machines that a provider makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from kernel_spec.dataclass import dataclass
from kernel_spec.resources import CPU, GPU, MEMORY, UNIT, Amounts

_PRICE_OF_CPU, _PRICE_OF_GPU, _PRICE_OF_GIB = 0.04, 1.0, 0.005
"""What a CPU, a GPU and a GiB of memory count per hour where a provider names no price."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of machine: the `resources` (exact units) and labels that its node joins with, and what it costs.

    `price` is per hour; None where it is not known: then its size counts. `boot_seconds` is how long one usually takes
    to join. The cluster has at least `minimum` of them, and at most `maximum` (None: any number).
    """

    name: str
    resources: Amounts
    labels: Mapping[str, str] = field(default_factory=dict)
    price: float | None = None
    spot: bool = False
    zone: str = ""
    boot_seconds: float = 60.0
    minimum: int = 0
    maximum: int | None = None

    def at_most(self, total: Amounts) -> Kind:
        """Return the kind with no more than `total`, which one of them has had, and that is not always all of it."""
        least = {name: min(units, total.get(name, 0)) for name, units in self.resources.items()}
        return self if least == self.resources else replace(self, resources=least)

    @property
    def cost(self) -> float:
        """What one counts per hour: its price, or what its size is worth."""
        if self.price is not None:
            return self.price
        units = self.resources.get
        gib = units(MEMORY, 0) / UNIT / 2**30
        size = _PRICE_OF_CPU * units(CPU, 0) / UNIT + _PRICE_OF_GPU * units(GPU, 0) / UNIT + _PRICE_OF_GIB * gib
        return size or _PRICE_OF_CPU

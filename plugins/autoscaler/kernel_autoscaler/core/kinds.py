"""The kinds of machines that a provider makes, and the limits that a cluster has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

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

    @property
    def cost(self) -> float:
        """What one counts per hour: its price, or what its size is worth."""
        if self.price is not None:
            return self.price
        units = self.resources.get
        gib = units(MEMORY, 0) / UNIT / 2**30
        size = _PRICE_OF_CPU * units(CPU, 0) / UNIT + _PRICE_OF_GPU * units(GPU, 0) / UNIT + _PRICE_OF_GIB * gib
        return size or _PRICE_OF_CPU


@dataclass(frozen=True, slots=True)
class Settings:
    """How a cluster is scaled. Times are in seconds.

    A node that was idle for `idle_seconds` is drained. There are at most `maximum_nodes` made by the autoscaler, and
    they cost at most `maximum_price` per hour together. The tasks that wait behind requests count as no more workers
    than end them within `backlog_seconds`. A decision waits for `burst_seconds` after the first demand that is not met,
    and for as long as that grows, but no longer than `burst_limit_seconds`. A machine that has not joined after
    `join_factor` times the usual time, and `join_seconds`, is ended. `repeats`: a provider's `create` takes a token.
    """

    idle_seconds: float = 300.0
    maximum_nodes: int | None = None
    maximum_price: float | None = None
    backlog_seconds: float = 60.0
    burst_seconds: float = 0.05
    burst_limit_seconds: float = 1.0
    join_factor: float = 3.0
    join_seconds: float = 600.0
    repeats: bool = False
    devices: tuple[str, ...] = (GPU,)

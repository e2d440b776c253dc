"""Resources of runs: amounts, or several bundles that are placed together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernel_runs.errors import RunError

Demand = dict[str, float]
"""Amounts of resources by the kernel's names: CPU, GPU, memory (bytes), and custom ones."""


@dataclass(frozen=True)
class Resources:
    """The resources of one run: for its own process, and (`extra_...`) for tasks and actors that it starts.

    CPUs and GPUs may be fractions, memory is in bytes, custom resources are dicts of name to amount.
    """

    cpu: float = 1.0
    gpu: float = 0.0
    memory: float = 0.0
    object_store_memory: float = 0.0
    extra_cpu: float = 0.0
    extra_gpu: float = 0.0
    extra_memory: float = 0.0
    extra_object_store_memory: float = 0.0
    custom_resources: Mapping[str, float] = field(default_factory=dict)
    extra_custom_resources: Mapping[str, float] = field(default_factory=dict)

    def own(self) -> Demand:
        """Return the resources of the run's process."""
        return without_zeros(
            {
                "CPU": self.cpu,
                "GPU": self.gpu,
                "memory": self.memory,
                "object_store_memory": self.object_store_memory,
                **self.custom_resources,
            }
        )

    def extra(self) -> Demand:
        """Return the resources of the tasks and actors that the run starts."""
        return without_zeros(
            {
                "CPU": self.extra_cpu,
                "GPU": self.extra_gpu,
                "memory": self.extra_memory,
                "object_store_memory": self.extra_object_store_memory,
                **self.extra_custom_resources,
            }
        )

    def bundles(self) -> list[Demand]:
        """Return the bundles that are reserved together. The first is for the run's process."""
        extra = self.extra()
        return [self.own(), extra] if extra else [self.own()]

    strategy = "PACK"


@dataclass(frozen=True)
class PlacementGroupFactory:
    """Several bundles that are reserved together for each run: `[{"CPU": 1}, {"GPU": 1}]`.

    The first is for the run's process, and may be empty; the others are for tasks and actors that the process starts.
    """

    bundle_list: list[Demand]
    strategy: str = "PACK"

    def __post_init__(self) -> None:
        if not self.bundle_list:
            raise ValueError("a PlacementGroupFactory needs at least one bundle, such as {'CPU': 1}")

    def bundles(self) -> list[Demand]:
        """Return the bundles. The first is for the run's process."""
        return [without_zeros(bundle) for bundle in self.bundle_list]

    @property
    def required_resources(self) -> Demand:
        """The sum of all bundles."""
        return total(self.bundles())


Request = Resources | PlacementGroupFactory

_KEYS = {
    "cpu": "cpu", "CPU": "cpu", "num_cpus": "cpu", "gpu": "gpu", "GPU": "gpu", "num_gpus": "gpu",
    "memory": "memory", "object_store_memory": "object_store_memory",
    "extra_cpu": "extra_cpu", "extra_gpu": "extra_gpu", "extra_memory": "extra_memory",
    "extra_object_store_memory": "extra_object_store_memory",
    "custom_resources": "custom_resources", "resources": "custom_resources",
    "extra_custom_resources": "extra_custom_resources",
}  # fmt: skip


def make_request(given: Any) -> Request:
    """Return the request for a dict of resources, for None (one CPU), or for one of the two classes, as it is.

    In a dict, `cpu`, `gpu`, `memory` and `extra_...` are those of `Resources`; every other name is a custom resource.
    With `gpu` and no `cpu`, one CPU is requested. Raises RunError for an amount that is not a number of at least 0.
    """
    if given is None:
        return Resources()
    if isinstance(given, (Resources, PlacementGroupFactory)):
        return given
    if not isinstance(given, Mapping):
        raise RunError(
            f"resources are {given!r}: they are a dict such as {{'cpu': 1, 'gpu': 0.5}}, Resources or a "
            "PlacementGroupFactory"
        )
    values: dict[str, Any] = {}
    custom: dict[str, float] = {}
    for key, amount in given.items():
        name = _KEYS.get(key)
        if name in ("custom_resources", "extra_custom_resources"):
            values[name] = {**values.get(name, {}), **amount}
        elif isinstance(amount, bool) or not isinstance(amount, (int, float)) or amount < 0:
            raise RunError(f"resource {key!r} of a trial is {amount!r}: it is a number of at least 0")
        elif name is None:
            custom[key] = float(amount)
        else:
            values[name] = float(amount)
    if custom:
        values["custom_resources"] = {**values.get("custom_resources", {}), **custom}
    return Resources(**values)


def total(bundles: list[Demand]) -> Demand:
    """Return the sum of bundles."""
    whole: Demand = {}
    for bundle in bundles:
        for name, amount in bundle.items():
            whole[name] = whole.get(name, 0.0) + amount
    return whole


def without_zeros(demand: Mapping[str, float]) -> Demand:
    """Return the amounts that are not 0."""
    return {name: float(amount) for name, amount in demand.items() if amount}

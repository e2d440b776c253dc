"""The number of workers of a run, and the resources of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernel_runs.arguments import ArgumentError
from kernel_runs.resources import Demand, PlacementGroupFactory, total, without_zeros
from kernel_runs.settings.fields import refuses_unknown

STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
_NAMES = {"cpu": "CPU", "num_cpus": "CPU", "gpu": "GPU", "num_gpus": "GPU"}
_LEAST_UNITS = 0.0001
"""The units of an accelerator's model that a worker requests: the smallest amount, so that many can have it."""


@refuses_unknown
@dataclass
class ScalingConfig:
    """The number of workers of a run, their resources, and how they are spread over the machines.

    `num_workers` is a number, or a pair of the least and the largest number if it may vary. A worker has one CPU, or
    with `use_gpu` one GPU, unless `resources_per_worker` says more: `{"CPU": 2, "GPU": 0.5, "memory": 1e9}` (bytes),
    and custom resources. `trainer_resources` are for the process that manages the workers, one CPU by default.
    `placement_strategy` is one of `STRATEGIES`, `accelerator_type` the name of a model, such as "A100".

    Any field may be a choice of a search space; the amounts are known when a value has been chosen. Raises
    `ArgumentError` for other values.
    """

    num_workers: Any = 1
    use_gpu: Any = False
    resources_per_worker: Any = None
    trainer_resources: Any = None
    placement_strategy: Any = "PACK"
    accelerator_type: str | None = None

    def __post_init__(self) -> None:
        _check_workers(self.num_workers)
        if isinstance(self.num_workers, list):
            self.num_workers = tuple(self.num_workers)
        if isinstance(self.use_gpu, (int, str, float)) and not isinstance(self.use_gpu, bool):
            raise ArgumentError(f"ScalingConfig: use_gpu is {self.use_gpu!r}, but must be True or False")
        if isinstance(self.placement_strategy, str) and self.placement_strategy not in STRATEGIES:
            raise ArgumentError(
                f"ScalingConfig: placement_strategy is {self.placement_strategy!r}, but must be one of "
                f"{', '.join(STRATEGIES)}"
            )
        self.resources_per_worker = _amounts("resources_per_worker", self.resources_per_worker)
        self.trainer_resources = _amounts("trainer_resources", self.trainer_resources)
        self._check_gpus()

    def _check_gpus(self) -> None:
        gpus = self.resources_per_worker.get("GPU") if _is_plain(self.resources_per_worker) else None
        if self.use_gpu is False and gpus:
            raise ArgumentError(
                f"ScalingConfig: resources_per_worker asks for {gpus:g} GPU, but use_gpu is False: say use_gpu=True, "
                "or leave the GPU out"
            )
        if self.use_gpu is True and gpus == 0:
            raise ArgumentError(
                "ScalingConfig: use_gpu is True, but resources_per_worker asks for 0 GPU: ask for some, or say "
                "use_gpu=False"
            )

    # -- amounts -----------------------------------------------------------------------------------------------------

    @property
    def min_workers(self) -> int:
        """The least number of workers that the run needs."""
        workers = self._chosen("num_workers")
        return int(workers[0] if isinstance(workers, tuple) else workers)

    @property
    def max_workers(self) -> int:
        """The number of workers that the run has if there is room."""
        workers = self._chosen("num_workers")
        return int(workers[1] if isinstance(workers, tuple) else workers)

    @property
    def worker_resources(self) -> Demand:
        """The resources that are reserved for each worker."""
        given = self._chosen("resources_per_worker")
        use_gpu = self._chosen("use_gpu")
        demand = dict(given) if given is not None else ({"GPU": 1.0} if use_gpu else {"CPU": 1.0})
        if use_gpu:
            demand.setdefault("GPU", 1.0)
        if self.accelerator_type:
            demand.setdefault(f"accelerator_type:{self.accelerator_type}", _LEAST_UNITS)
        return without_zeros(demand)

    @property
    def own_resources(self) -> Demand:
        """The resources that are reserved for the process that manages the workers."""
        given = self._chosen("trainer_resources")
        return without_zeros({"CPU": 1.0} if given is None else given)

    @property
    def num_cpus_per_worker(self) -> float:
        """The number of CPUs of a worker."""
        return self.worker_resources.get("CPU", 0.0)

    @property
    def num_gpus_per_worker(self) -> float:
        """The number of GPUs of a worker."""
        return self.worker_resources.get("GPU", 0.0)

    @property
    def additional_resources_per_worker(self) -> Demand:
        """The resources of a worker other than CPUs and GPUs."""
        return {name: amount for name, amount in self.worker_resources.items() if name not in ("CPU", "GPU")}

    @property
    def total_resources(self) -> Demand:
        """The resources of the whole run, with the least number of workers."""
        return total([self.own_resources, *self.worker_bundles()])

    def worker_bundles(self, workers: int | None = None) -> list[Demand]:
        """Return a placement group's bundles for a number of workers, by default the least number."""
        count = self.min_workers if workers is None else workers
        return [dict(self.worker_resources) for _ in range(count)]

    def as_placement_group_factory(self) -> PlacementGroupFactory:
        """Return the request of a trial that manages the workers.

        The trial's process has an empty bundle of its own. Its resources are in the bundle of the first worker, so that
        both are on one machine.
        """
        first, *others = self.worker_bundles() or [{}]
        shared = total([self.own_resources, first])
        return PlacementGroupFactory([{}, shared, *others] if shared else [{}], self._chosen("placement_strategy"))

    @classmethod
    def from_placement_group_factory(cls, factory: PlacementGroupFactory) -> ScalingConfig:
        """Return settings from the bundles that `as_placement_group_factory` has made of them.

        If there is only one worker, it gets all resources: its share can't be told apart.
        """
        bundles = [bundle for bundle in factory.bundles() if bundle] or [{}]
        first, worker = bundles[0], bundles[-1]
        own = {name: amount - worker.get(name, 0.0) for name, amount in first.items()} if len(bundles) > 1 else {}
        return cls(
            num_workers=len(bundles),
            use_gpu=bool(worker.get("GPU")),
            resources_per_worker=worker,
            trainer_resources={name: amount for name, amount in own.items() if amount > 0},
            placement_strategy=factory.strategy,
        )

    def _chosen(self, name: str) -> Any:
        """Return the value of a field. Raises `ArgumentError` if a search has still to choose it."""
        value = getattr(self, name)
        if not _is_plain(value) and not isinstance(value, (int, str, tuple, type(None))):
            raise ArgumentError(
                f"ScalingConfig: {name} is {value!r}, which a search has not chosen from yet: its amounts are known in "
                "a trial"
            )
        return value


def _is_plain(amounts: Any) -> bool:
    """Return whether amounts are a dict of numbers, without choices of a search space."""
    return isinstance(amounts, dict) and all(isinstance(amount, (int, float)) for amount in amounts.values())


def _check_workers(given: Any) -> None:
    """Raise `ArgumentError` for an impossible number of workers."""
    pair = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    plain = [each for each in pair if isinstance(each, (int, float, str, type(None)))]
    good = all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in plain)
    if isinstance(given, (tuple, list)):
        good = good and len(pair) == 2 and (len(plain) < 2 or 1 <= pair[0] <= pair[1])
    if not good:
        raise ArgumentError(
            f"ScalingConfig: num_workers is {given!r}, but must be a whole number, at least 0, or two of them: the "
            "least and the most"
        )


def _amounts(field: str, given: Any) -> Any:
    """Return amounts by the kernel's names. Choices of a search space are left as they are."""
    if isinstance(given, (int, float, str, list, tuple)):
        raise ArgumentError(f"ScalingConfig: {field} is {given!r}, but must be a dict such as {{'CPU': 2, 'GPU': 0.5}}")
    if not isinstance(given, Mapping) or set(given) == {"grid_search"}:
        return given
    for name, amount in given.items():
        if isinstance(amount, (bool, str, type(None))) or (isinstance(amount, (int, float)) and not amount >= 0):
            raise ArgumentError(f"ScalingConfig: {field} asks for {amount!r} {name}: it is a number of at least 0")
    return {_NAMES.get(name, name): amount for name, amount in given.items()}

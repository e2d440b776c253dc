"""Functions that divide free resources among trials, for `ResourceChangingScheduler`.

After each result of a trial that continues, it calls one as `function(controller, trial, result, scheduler)`. That
returns the new resources of the trial, or None for no change. Resources are a dict such as `{"cpu": 2, "gpu": 1}`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Protocol

from kernel_runs.arguments import ArgumentError, check_mode, check_number
from kernel_runs.reports import Report, metric_in
from kernel_runs.resources import Resources, make_request
from kernel_tune.schedulers.base import Controller
from kernel_tune.schedulers.common import number
from kernel_tune.trial import Status, Trial

Amounts = dict[str, Any]

_MOST_INCREMENTS = 1024


class Origin(Protocol):
    """The interface of the scheduler that calls an allocation function."""

    @property
    def metric(self) -> str:
        """The key of the result that decisions of the base scheduler depend on."""

    @property
    def mode(self) -> str:
        """ "max" or "min"."""

    def base_resources_of(self, trial: Trial) -> Any:
        """Return the resources with which a trial was made."""


AllocationFunction = Callable[[Controller, Trial, Report, Origin], Any]


def amounts(resources: Any) -> Amounts:
    """Return the resources of a trial or of a request as amounts by name: `cpu`, `gpu`, `extra_cpu`, ..., and custom
    ones.

    Raises `ArgumentError` for a `PlacementGroupFactory`, whose bundles can't be divided here.
    """
    request = make_request(resources)
    if not isinstance(request, Resources):
        raise ArgumentError(
            f"the trials' resources are {request!r}; only a dict such as {{'cpu': 2, 'gpu': 1}} can be divided. Pass a "
            f"resources_allocation_function of your own"
        )
    numbers = {each.name: getattr(request, each.name) for each in fields(request)}
    custom = numbers.pop("custom_resources")
    extra = numbers.pop("extra_custom_resources")
    found = {name: amount for name, amount in numbers.items() if amount} | dict(custom)
    return {**found, "extra_custom_resources": dict(extra)} if extra else found


def _step_of(given: Mapping[str, float]) -> Amounts:
    return {name.lower() if name in ("CPU", "GPU") else name: amount for name, amount in given.items()}


class DistributeResources:
    """Divides free resources evenly among the running trials.

    A trial that has reported gets its share of what is free, unless another one has less. If a pending trial finds no
    room, one of the trials with the most resources returns to those that it began with.

    `increase_by` is the step in which resources grow, by default one GPU for trials that have a GPU, else one CPU.
    `increase_by_times` is the largest number of steps of a trial (below 1: any number), `reserve_resources` is left
    free. With `add_bundles` steps are given as `extra_cpu` and `extra_gpu`, for actors that a trial starts, instead of
    to the trial itself. Raises `ArgumentError` for invalid amounts.
    """

    def __init__(
        self, add_bundles: bool = False, increase_by: Mapping[str, float] | None = None, increase_by_times: int = -1,
        reserve_resources: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        for name, given in (("increase_by", increase_by), ("reserve_resources", reserve_resources)):
            for key, value in (given or {}).items():
                check_number(self, f"{name}[{key!r}]", value, least=0)
        if increase_by is not None and not any(increase_by.values()):
            raise ArgumentError(f"{type(self).__name__}: increase_by is {increase_by!r}: nothing would ever grow")
        self.add_bundles = add_bundles
        self.increase_by = _step_of(increase_by) if increase_by else {}
        self.increase_by_times = increase_by_times
        self.reserve_resources = _step_of(reserve_resources) if reserve_resources else {}

    def __call__(self, tune_controller: Controller, trial: Trial, result: Report, scheduler: Origin) -> Amounts | None:
        """Return the new resources of the trial, or None for no change."""
        live = tune_controller.get_live_trials()
        steps = {each.trial_id: self._steps(each, scheduler) for each in live if each.status is Status.RUNNING}
        own = steps.setdefault(trial.trial_id, self._steps(trial, scheduler))
        pending = [each for each in live if each.status is Status.PENDING]
        if pending:
            crowded = own > 0 and own == max(steps.values()) and not tune_controller.has_resources_for_trial(pending[0])
            return amounts(scheduler.base_resources_of(trial)) if crowded else None
        return self._grow(tune_controller, trial, scheduler, steps)

    def _grow(self, controller: Controller, trial: Trial, scheduler: Origin,
              steps: dict[str, int]) -> Amounts | None:  # fmt: skip
        if steps[trial.trial_id] > min(steps.values()):
            return None
        free = self._free_steps(controller, trial, scheduler, steps[trial.trial_id])
        return self._more(trial, scheduler, math.ceil(free / len(steps))) if free else None

    def _step(self, trial: Trial, scheduler: Origin) -> Amounts:
        step = self.increase_by
        if not step:
            step = {"gpu": 1} if amounts(scheduler.base_resources_of(trial)).get("gpu") else {"cpu": 1}
        return {f"extra_{name}": amount for name, amount in step.items()} if self.add_bundles else step

    def _steps(self, trial: Trial, scheduler: Origin) -> int:
        """Return the number of steps by which the resources of a trial have grown."""
        has, had = amounts(trial.resources), amounts(scheduler.base_resources_of(trial))
        step = self._step(trial, scheduler)
        return min(int((has.get(name, 0) - had.get(name, 0)) / each + 1e-9) for name, each in step.items() if each)

    def _more(self, trial: Trial, scheduler: Origin, count: int) -> Amounts:
        has = amounts(trial.resources)
        step = self._step(trial, scheduler)
        return {**has, **{name: has.get(name, 0) + count * each for name, each in step.items()}}

    def _free_steps(self, controller: Controller, trial: Trial, scheduler: Origin, own: int) -> int:
        """Return the number of further steps for which there is room, without what is reserved."""
        most = self.increase_by_times - own if self.increase_by_times >= 1 else _MOST_INCREMENTS
        step = self._step(trial, scheduler)

        def fits(count: int) -> bool:
            wanted = {"cpu": 0.0, **{name: count * each for name, each in step.items()}}
            for name, amount in self.reserve_resources.items():
                wanted[name] = wanted.get(name, 0) + amount
            return controller.has_resources_for_trial(Trial(trial.trainable_name, resources=wanted))

        low, high = 0, 1
        while high <= most and fits(high):
            low, high = high, 2 * high
        high = min(high, most + 1)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low


class DistributeResourcesToTopJob(DistributeResources):
    """Gives all free resources to the running trial with the best metric. Others keep what they have.

    No trial gets more before all running ones have reported. `metric` and `mode` are by default those of the scheduler;
    the other arguments are those of `DistributeResources`.
    """

    def __init__(
        self, add_bundles: bool = False, increase_by: Mapping[str, float] | None = None, increase_by_times: int = -1,
        reserve_resources: Mapping[str, float] | None = None, metric: str | None = None, mode: str | None = None,
    ) -> None:  # fmt: skip
        check_mode(self, mode)
        super().__init__(add_bundles, increase_by, increase_by_times, reserve_resources)
        self.metric = metric
        self.mode = mode

    def __call__(self, tune_controller: Controller, trial: Trial, result: Report, scheduler: Origin) -> Amounts | None:
        """Return the new resources of the trial, or None for no change."""
        key, sign = self.metric or scheduler.metric, 1 if (self.mode or scheduler.mode) == "max" else -1
        key = metric_in(result, key)
        own = number(result, key)
        running = [each for each in tune_controller.get_live_trials() if each.status is Status.RUNNING]
        others = [number(each.last_result, key) for each in running if each is not trial]
        if own is None or any(each is None or sign * each > sign * own for each in others):
            return None
        return super().__call__(tune_controller, trial, result, scheduler)

    def _grow(self, controller: Controller, trial: Trial, scheduler: Origin,
              steps: dict[str, int]) -> Amounts | None:  # fmt: skip
        free = self._free_steps(controller, trial, scheduler, steps[trial.trial_id])
        return self._more(trial, scheduler, free) if free else None

"""Changing the resources of trials, while another scheduler makes all other decisions."""

from __future__ import annotations

from typing import Any

from kernel_runs.arguments import ArgumentError, check_callable
from kernel_runs.reports import Report
from kernel_runs.resources import make_request
from kernel_tune.schedulers.base import Controller, TrialScheduler
from kernel_tune.schedulers.common import first_that_fits
from kernel_tune.schedulers.fifo import FIFOScheduler
from kernel_tune.schedulers.resource_allocation import AllocationFunction, DistributeResources
from kernel_tune.trial import Status, Trial


class ResourceChangingScheduler(TrialScheduler):
    """Calls a function after each result of a trial that continues, and gives the trial the resources that it returns.

    `base_scheduler` makes all other decisions (by default `FIFOScheduler`). `resources_allocation_function(controller,
    trial, result, scheduler)` returns resources, such as `{"cpu": 4}`, or None for no change; by default
    `DistributeResources()` divides what is free. If it returns more than the machines have, the trial waits for them.

    A trial whose resources change is paused, and continues before others are started. Trainables must be able to save
    and restore, and to use what they get. Raises `ArgumentError` for invalid arguments.
    """

    needs_checkpoints = True

    def __init__(
        self, base_scheduler: TrialScheduler | None = None,
        resources_allocation_function: AllocationFunction | None = None,
    ) -> None:  # fmt: skip
        if base_scheduler is not None and not isinstance(base_scheduler, TrialScheduler):
            raise ArgumentError(
                f"ResourceChangingScheduler: base_scheduler is {base_scheduler!r}, but must be a TrialScheduler"
            )
        super().__init__()
        if resources_allocation_function is not None:
            check_callable(self, "resources_allocation_function", resources_allocation_function)
        self._base_scheduler = base_scheduler or FIFOScheduler()
        self._allocate = resources_allocation_function or DistributeResources()
        self._base_resources: dict[str, Any] = {}
        self._changed: dict[str, None] = {}
        """The trials that were paused to get other resources."""

    @property
    def metric(self) -> str:
        """The key of the result that decisions of the base scheduler depend on."""
        return self._base_scheduler.metric

    @property
    def mode(self) -> str:
        """ "max" or "min", of the base scheduler."""
        return self._base_scheduler.mode

    @property
    def base_trial_resources(self) -> Any:
        """The resources with which the first trial was made, or None."""
        return next(iter(self._base_resources.values()), None)

    def base_resources_of(self, trial: Trial) -> Any:
        """Return the resources with which a trial was made."""
        return self._base_resources.get(trial.trial_id, trial.resources)

    def set_search_properties(self, metric: str | None, mode: str | None, **experiment: Any) -> bool:
        """Pass metric and mode of the experiment to the base scheduler."""
        return self._base_scheduler.set_search_properties(metric, mode, **experiment)

    def on_trial_add(self, runner: Controller, trial: Trial) -> None:
        """Note the resources with which the trial is made."""
        self._base_resources[trial.trial_id] = trial.resources
        self._base_scheduler.on_trial_add(runner, trial)

    def on_trial_result(self, runner: Controller, trial: Trial, result: Report) -> str:
        """Pause a trial that continues, if it is to have other resources."""
        decision = self._base_scheduler.on_trial_result(runner, trial, result)
        if decision != self.CONTINUE:
            return decision
        resources = self._allocate(runner, trial, result, self)
        if resources is None or make_request(resources) == make_request(trial.resources):
            return decision
        self._changed[trial.trial_id] = None
        runner.set_resources(trial, resources)
        return self.PAUSE

    def on_trial_complete(self, runner: Controller, trial: Trial, result: Report) -> None:
        """Pass the event on to the base scheduler."""
        self._forget(trial)
        self._base_scheduler.on_trial_complete(runner, trial, result)

    def on_trial_error(self, runner: Controller, trial: Trial) -> None:
        """Pass the event on to the base scheduler."""
        self._forget(trial)
        self._base_scheduler.on_trial_error(runner, trial)

    def on_trial_remove(self, runner: Controller, trial: Trial) -> None:
        """Pass the event on to the base scheduler."""
        self._forget(trial)
        self._base_scheduler.on_trial_remove(runner, trial)

    def _forget(self, trial: Trial) -> None:
        self._base_resources.pop(trial.trial_id, None)
        self._changed.pop(trial.trial_id, None)

    def choose_trial_to_run(self, runner: Controller) -> Trial | None:
        """Return a trial that was paused to get other resources, or the choice of the base scheduler."""
        if self._changed:
            waiting = [trial for trial in runner.get_live_trials() if trial.trial_id in self._changed]
            for trial in waiting:
                if trial.status is Status.RUNNING:
                    del self._changed[trial.trial_id]
            found = first_that_fits(runner, waiting)
            if found is not None:
                return found
        return self._base_scheduler.choose_trial_to_run(runner)

    def debug_string(self) -> str:
        """Return the line of the base scheduler."""
        return f"(ResourceChangingScheduler) {self._base_scheduler.debug_string()}"

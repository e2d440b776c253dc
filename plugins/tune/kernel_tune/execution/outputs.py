"""Outputs of a run: loggers, reporters, copies, and the objects that hold the results."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from kernel_runs.arguments import ArgumentError
from kernel_runs.callbacks import Callback
from kernel_runs.loggers import callbacks_of
from kernel_runs.progress.result_lines import TrialProgressCallback
from kernel_runs.settings.run import SyncConfig
from kernel_tune.execution.execute import RunOutcome
from kernel_tune.execution.loop import TrialLoop
from kernel_tune.execution.plan import RunPlan
from kernel_tune.reporters import ProgressReporter, detect_reporter
from kernel_tune.reporters.info import ExperimentInfo, node_memory

_INSIDE = ("searcher", "_algorithm", "_base_scheduler")
"""Attributes in which wrappers of searchers, search algorithms and schedulers keep the wrapped object."""


def listeners(
    plan: RunPlan, loggers: Sequence[Any] | None, callbacks: Sequence[Callback] | None, reporter: Any, verbose: int,
    syncer: Any,
) -> RunPlan:  # fmt: skip
    """Return the plan with its loggers, callbacks, reporter and copies. Raises ArgumentError for invalid ones."""
    given = _checked(callbacks)
    if reporter is not None and not isinstance(reporter, ProgressReporter):
        raise ArgumentError(f"tune: progress_reporter is {reporter!r}, but must be a tune.ProgressReporter")
    plan.callbacks = [*_logging(plan, loggers), *given]
    if verbose > 1:
        plan.callbacks.append(TrialProgressCallback(metric=plan.metric, verbose=verbose))
    if isinstance(syncer, SyncConfig):
        plan.syncer, plan.sync_period = syncer.syncer, syncer.sync_period
    else:
        plan.syncer = syncer
    if verbose > 0:
        reporting = plan.report = RunReporting(reporter or detect_reporter(), plan)
        plan.close = reporting.close
    return plan


def _checked(callbacks: Any) -> list[Callback]:
    if not isinstance(callbacks, (Sequence, type(None))):
        raise ArgumentError(f"tune: callbacks is {callbacks!r}, but must be a list of tune.Callback objects")
    found = [each for each in callbacks or () if each is not None]
    for each in found:
        if not isinstance(each, Callback):
            hint = f": give an object, {each.__name__}()" if isinstance(each, type) else ": derive its class from it"
            raise ArgumentError(f"tune: {each!r}, one of callbacks, is not a tune.Callback{hint}")
    return found


def _logging(plan: RunPlan, loggers: Sequence[Any] | None) -> list[Callback]:
    """Return the callbacks that log, and note in the plan which belong to single experiments."""
    if all(experiment.loggers is None for experiment in plan.experiments):
        return list(callbacks_of(loggers, "tune"))
    found: dict[int, Callback] = {}
    for experiment in plan.experiments:
        for callback in callbacks_of(loggers if experiment.loggers is None else experiment.loggers, "tune"):
            found[id(callback)] = callback
            plan.hears_only.setdefault(id(callback), set()).add(experiment.name or "")
    return list(found.values())


class RunReporting:
    """Shows the progress of an experiment by a reporter, which decides when."""

    def __init__(self, reporter: ProgressReporter, plan: RunPlan) -> None:
        self._reporter = reporter
        self._plan = plan
        self._is_set_up = False

    def __call__(self, loop: TrialLoop, seconds: float, done: bool) -> None:
        """Report if the reporter wants to. `seconds` is the time so far, `done` whether the experiment has ended."""
        if not self._is_set_up:
            self._is_set_up = True
            self._reporter.setup(
                start_time=time.time() - seconds,
                total_samples=loop.algorithm.total_samples,
                metric=self._plan.metric,
                mode=self._plan.mode,
            )
        if self._reporter.should_report(loop.trials, done=done):
            info = self._info(loop)
            self._reporter.experiment = info
            self._reporter.report(loop.trials, done, *info.lines())

    def close(self) -> None:
        """Restore the terminal."""
        self._reporter.close()

    def _info(self, loop: TrialLoop) -> ExperimentInfo:
        spec = next(iter(loop.specs.values()))
        return ExperimentInfo(
            name=spec.name,
            logdir=spec.local_dir,
            scheduler=loop.scheduler.debug_string(),
            used=loop.room.used,
            total=loop.room.capacity,
            memory=node_memory(),
            trials=loop.algorithm.total_samples,
        )


def analysis_of(outcome: RunOutcome, metric: str | None, mode: str | None) -> Any:
    """Return the `ExperimentAnalysis` of a run that has ended."""
    from kernel_tune.analysis import ExperimentAnalysis  # here: a Tuner does not need it

    path = os.path.join(outcome.directory, "experiment_state.json")
    if metric is None:
        metric, own_mode = _compared_by(outcome.loop)
        mode = mode or own_mode
    return ExperimentAnalysis(
        path,
        trials=outcome.trials,
        default_metric=metric,
        default_mode=mode,
        stats={"trials": len(outcome.trials), "scheduler": outcome.loop.scheduler.debug_string()},
        runner_data={"seconds": outcome.seconds, "interrupted": outcome.interrupted},
    )


def _compared_by(loop: TrialLoop) -> tuple[str | None, str | None]:
    """Return the metric and the mode that the searcher or the scheduler was given, if any."""
    for chooser in (loop.algorithm, loop.scheduler):
        inner: Any = chooser
        while inner is not None:
            own = getattr(inner, "__dict__", {})
            if isinstance(own.get("_metric"), str):
                return own["_metric"], own.get("_mode")
            inner = next((own[name] for name in _INSIDE if name in own), None)
    return None, None


def grid_of(outcome: RunOutcome, metric: str | None, mode: str | None) -> Any:
    """Return the `ResultGrid` of a run that has ended."""
    from kernel_tune.analysis import ResultGrid  # see above

    return ResultGrid(analysis_of(outcome, metric, mode))

"""Users' search algorithms, whose trials are completed to trials of an experiment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from kernel_runs.reports import Report
from kernel_tune.errors import TuneError
from kernel_tune.execution.generation import TrialMaker
from kernel_tune.execution.spec import ExperimentSpec
from kernel_tune.searchers.algorithm import SearchAlgorithm
from kernel_tune.trial import Trial


class WrappedAlgorithm(SearchAlgorithm):
    """Gives the experiments to a search algorithm, and completes its trials: ids, names, directories.

    A trial belongs to the experiment that its `extra["experiment"]` names, else to the one with its trainable, else to
    the first.
    """

    def __init__(self, algorithm: SearchAlgorithm, specs: Sequence[ExperimentSpec], maker: TrialMaker) -> None:
        self._algorithm = algorithm
        self._specs = {spec.name: spec for spec in specs}
        self._maker = maker
        self._waiting: list[Trial] = []
        algorithm.add_configurations({spec.name: _described(spec) for spec in specs})

    @property
    def metric(self) -> str | None:  # type: ignore[override]
        """The metric that is optimised, if the algorithm has one."""
        return self._algorithm.metric

    @property
    def total_samples(self) -> int | None:
        """The number of trials that there will be, or None if it is not known."""
        return self._algorithm.total_samples

    def next_trial(self) -> Trial | None:
        """Return the next trial, or None if there is none at present."""
        if not self._waiting and not self._algorithm.is_finished():
            self._waiting += [self._complete(trial) for trial in self._next()]
        return self._waiting.pop(0) if self._waiting else None

    def is_finished(self) -> bool:
        """Return whether there will be no further trial."""
        return not self._waiting and self._algorithm.is_finished()

    def set_finished(self) -> None:
        """Make no further trial."""
        self._waiting.clear()
        self._algorithm.set_finished()

    def on_trial_result(self, trial_id: str, result: Report) -> None:
        """A running trial has reported."""
        self._algorithm.on_trial_result(trial_id, result)

    def on_trial_complete(self, trial_id: str, result: Report | None = None, error: bool = False) -> None:
        """A trial has ended."""
        self._algorithm.on_trial_complete(trial_id, result=result, error=error)

    def _next(self) -> list[Trial]:
        if type(self._algorithm).next_trial is SearchAlgorithm.next_trial:
            return list(self._algorithm.next_trials())
        trial = self._algorithm.next_trial()
        return [] if trial is None else [trial]

    def _complete(self, trial: Any) -> Trial:
        if not isinstance(trial, Trial):
            raise TuneError(
                f"{type(self._algorithm).__name__}.next_trials() returned {trial!r}: it returns a list of tune.Trial "
                "(a searcher, which returns configurations, is a tune.searchers.Searcher)"
            )
        if "experiment" in trial.extra and trial.local_dir:
            return trial
        named = self._specs.get(trial.extra.get("experiment", ""))
        fitting = [spec for spec in self._specs.values() if spec.trainable_name == trial.trainable_name]
        spec = named or next(iter(fitting or self._specs.values()))
        trial.trainable_name = spec.trainable_name
        return self._maker.complete(spec, trial)


def _described(spec: ExperimentSpec) -> dict[str, Any]:
    """Return an experiment as a dict, in the form in which users describe it."""
    return {
        "run": spec.trainable or spec.trainable_name,
        "config": spec.space,
        "num_samples": spec.num_samples,
        "stop": dict(spec.stop),
        "resources_per_trial": spec.resources,
        "local_dir": os.path.dirname(spec.local_dir),
        "max_failures": spec.max_failures,
    }


GivenAlgorithm = WrappedAlgorithm
"""The name in experiments that older versions have written."""

"""The results of all trials of an experiment, as a sequence."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, overload

from kernel_runs.reports import AUTO_KEYS, flatten
from kernel_runs.results.result import Result
from kernel_tune.analysis.experiment import ExperimentAnalysis
from kernel_tune.analysis.result import result_of
from kernel_tune.errors import MetricError
from kernel_tune.raised import error_of
from kernel_tune.trial import Status, Trial


class ResultGrid:
    """The results of an experiment: a sequence, with the best of them.

    It is made from an `ExperimentAnalysis`, from the directory of an experiment, or from trials with their directory as
    `path`. `metric` and `mode` are used by methods that are called without them.
    """

    def __init__(self, experiment: ExperimentAnalysis | str | os.PathLike[str] | Sequence[Trial],
                 metric: str | None = None, mode: str | None = None, *, path: str = "") -> None:  # fmt: skip
        if isinstance(experiment, (str, os.PathLike)):
            experiment = ExperimentAnalysis(experiment, default_metric=metric, default_mode=mode)
        elif not isinstance(experiment, ExperimentAnalysis):
            experiment = ExperimentAnalysis(path, experiment, metric, mode)
        self.analysis = experiment
        self._results: list[Result | None] = [None] * len(self.analysis.trials)

    def __len__(self) -> int:
        return len(self._results)

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> list[Result]: ...
    def __getitem__(self, index: int | slice) -> Result | list[Result]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        found = self._results[index]
        if found is None:
            found = self._results[index] = result_of(self.analysis.trials[index])
        return found

    def __iter__(self) -> Iterator[Result]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return f"ResultGrid({len(self)} trials of {self.experiment_path}, {self.num_errors} with errors)"

    def get_best_result(self, metric: str | None = None, mode: str | None = None, scope: str = "last",
                        filter_nan_and_inf: bool = True) -> Result:  # fmt: skip
        """Return the best result by a metric, by default the experiment's. Of a single trial it is the only result.

        `scope` is the value of a trial that is compared: "last" its last one, "all" its best one, "avg", "last-5-avg"
        or "last-10-avg" a mean. Raises ValueError if there is no metric to compare by, MetricError if no trial has it.
        """
        if metric is None and len(self) == 1:
            return self[0]
        best = self.analysis.get_best_trial(metric, mode, scope, filter_nan_and_inf)
        if best is None:
            wanted = metric or self.analysis.default_metric
            keys = sorted({key for trial in self.analysis.trials for key in flatten(trial.last_result)})
            known = [key for key in keys if key not in AUTO_KEYS and not key.startswith("config/")]
            raise MetricError(
                f"no trial of {self.experiment_path} has a value of {wanted!r} that can be compared (NaN and infinity "
                f"can't, unless filter_nan_and_inf=False): trials have reported {', '.join(known) or 'nothing'}"
            )
        return self[self.analysis.trials.index(best)]

    def get_dataframe(self, filter_metric: str | None = None, filter_mode: str | None = None) -> Any:
        """Return a pandas table with a row for each trial: its last result, or its best by `filter_metric`."""
        return self.analysis.dataframe(filter_metric, filter_mode)

    @property
    def results(self) -> list[Result]:
        """All results, in the order in which the trials were made."""
        return list(self)

    @property
    def errors(self) -> list[Exception]:
        """The errors of failed trials. Each is a `TrialError`, and of the type that the trainable raised."""
        return [error for error in map(error_of, self.analysis.trials) if error is not None]

    @property
    def num_errors(self) -> int:
        """The number of trials that have failed."""
        return sum(trial.status is Status.ERROR for trial in self.analysis.trials)

    @property
    def num_terminated(self) -> int:
        """The number of trials that have ended without an error."""
        return sum(trial.status is Status.TERMINATED for trial in self.analysis.trials)

    @property
    def experiment_path(self) -> str:
        """The experiment's directory."""
        return self.analysis.experiment_path

"""The data of an experiment for plots and pages: curves, scores, and parameters that differ."""

from __future__ import annotations

import math
import numbers
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernel_runs.reports import AUTO_KEYS, TRAINING_ITERATION, flatten, look_up
from kernel_runs.results.comparing import best_of, check, number
from kernel_tune.analysis.experiment import Analysis, ExperimentAnalysis
from kernel_tune.analysis.grid import ResultGrid
from kernel_tune.trial import Trial

Source = ResultGrid | Analysis | str | os.PathLike[str]
"""A grid, an analysis, or the directory of an experiment."""
_LOGARITHMIC = 50.0
"""The ratio of the largest to the smallest value from which on an axis may be logarithmic."""


@dataclass(frozen=True)
class TrialData:
    """Holds a trial with its metric at each step, and its last value, if that is a finite number."""

    trial: Trial
    parameters: dict[str, Any]
    steps: list[int]
    values: list[float]
    score: float | None


@dataclass(frozen=True)
class Axis:
    """Maps the values of a parameter to 0..1. `categories` is empty if the values are numbers."""

    name: str
    low: float
    high: float
    is_logarithmic: bool = False
    categories: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, values: Sequence[Any]) -> Axis:
        """Return an axis for these values. None among them is ignored."""
        given = [value for value in values if value is not None]
        finite = [float(value) for value in given if number(value) is not None]
        if not finite or len(finite) < len(given):
            texts = {str(value) for value in given}
            return cls(name, 0, max(0, len(texts) - 1), categories=tuple(sorted(texts)))
        low, high = min(finite), max(finite)
        return cls(name, low, high, is_logarithmic=low > 0 and high / low >= _LOGARITHMIC and _is_skew(finite))

    def position(self, value: Any) -> float | None:
        """Return the position of a value on the axis, 0 to 1; None for None."""
        if value is None:
            return None
        if self.categories:
            return self.categories.index(str(value)) / max(1, len(self.categories) - 1)
        if self.high == self.low:
            return 0.5
        if self.is_logarithmic:
            return math.log(float(value) / self.low) / math.log(self.high / self.low)
        return (float(value) - self.low) / (self.high - self.low)


def _is_skew(values: Sequence[float]) -> bool:
    """Return whether the median of positive numbers is nearer to the middle of a logarithmic than of a linear axis."""
    low, high, middle = min(values), max(values), statistics.median(values)
    linear = (middle - low) / (high - low)
    return abs(math.log(middle / low) / math.log(high / low) - 0.5) < abs(linear - 0.5)


@dataclass(frozen=True)
class ExperimentData:
    """Holds an experiment by one metric. `best` has the best last value, `axes` are of the parameters that differ."""

    path: str
    metric: str
    mode: str
    trials: list[TrialData]
    axes: list[Axis]
    best: TrialData | None

    @property
    def compared(self) -> list[TrialData]:
        """The trials with a score, the worst first and of equal ones the newest first, so that the best is the last."""
        sign = 1.0 if self.mode == "max" else -1.0
        return sorted((t for t in reversed(self.trials) if t.score is not None), key=lambda t: sign * (t.score or 0.0))


def analysis_of(source: Source) -> Analysis:
    """Return the analysis of a grid, or of a directory."""
    if isinstance(source, ResultGrid):
        return source.analysis
    return source if isinstance(source, Analysis) else ExperimentAnalysis(source)


def data_of(source: Source, metric: str | None = None, mode: str | None = None) -> ExperimentData:
    """Return an experiment by a metric: the given one, else the experiment's, else the only one that its trials report.

    Raises ValueError if the trials report several.
    """
    analysis = analysis_of(source)
    metric = metric or analysis.default_metric or _only_metric(analysis.trials)
    mode = mode or analysis.default_mode or "max"
    check(mode)
    trials = [_trial_data(analysis, trial, metric) for trial in analysis.trials]
    names = dict.fromkeys(name for trial in trials for name in trial.parameters)
    columns = {name: [trial.parameters.get(name) for trial in trials] for name in names}
    axes = [Axis.of(name, values) for name, values in columns.items() if len({str(value) for value in values}) > 1]
    best = best_of(((trial, trial.score) for trial in trials), mode)
    path = getattr(analysis, "experiment_path", analysis.trials[0].local_dir if analysis.trials else "")
    return ExperimentData(path, metric, mode, trials, axes, best)


def _trial_data(analysis: Analysis, trial: Trial, metric: str) -> TrialData:
    steps, values = [], []
    for place, result in enumerate(analysis.history(trial), start=1):
        value = number(look_up(result, metric))
        if value is not None:
            steps.append(int(result.get(TRAINING_ITERATION) or place))
            values.append(value)
    chosen = flatten(trial.evaluated_params or trial.config)
    simple = {name: value for name, value in chosen.items() if isinstance(value, (str, bool, numbers.Real))}
    return TrialData(trial, simple, steps, values, number(trial.value(metric)))


def _only_metric(trials: Sequence[Trial]) -> str:
    known = dict.fromkeys(
        key
        for trial in trials
        for key, value in flatten(trial.last_result).items()
        if key not in AUTO_KEYS and not key.startswith("config/") and number(value, finite=False) is not None
    )
    if len(known) != 1:
        said = f"trials report {', '.join(known)}" if known else "no trial has reported a number"
        raise ValueError(f"by which metric? {said}; give one of them (metric=...)")
    return next(iter(known))

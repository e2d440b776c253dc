"""The base of schedulers that compare results: time and score of a result, seeds, saving."""

from __future__ import annotations

import math
import pickle
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kernel_runs.arguments import ArgumentError, check_mode, refuse_unknown
from kernel_runs.reports import TRAINING_ITERATION, Report, look_up, metric_in, own_keys
from kernel_tune.errors import MetricError
from kernel_tune.schedulers.base import Controller, TrialScheduler
from kernel_tune.trial import Status, Trial

WORST = -math.inf
"""The score of a result whose metric is NaN."""


class ComparingScheduler(TrialScheduler):
    """Compares trials by a *score*, of which larger is better in either mode, at a *time*, which only grows.

    `time_attr` is the key of the result that is the time: `training_iteration`, `time_total_s` (seconds) or a key that
    the trainable reports. All times and periods are in its unit. `metric` and `mode` ("min" or "max") may also come
    from the experiment. `seed` makes random choices reproducible; if it is None, the experiment's seed does, or 0.

    Raises `ArgumentError` for invalid and for unknown arguments.
    """

    def __init__(
        self, time_attr: str = TRAINING_ITERATION, metric: str | None = None, mode: str | None = None,
        seed: int | None = None, **unknown: Any,
    ) -> None:  # fmt: skip
        check_mode(self, mode)
        refuse_unknown(self, unknown, type(self).__init__)
        for name, key in (("time_attr", time_attr), ("metric", metric)):
            if not (isinstance(key, str) and key) and not (name == "metric" and key is None):
                raise ArgumentError(f"{type(self).__name__}: {name} is {key!r}, but must be the key of a result")
        super().__init__(metric, mode)
        self._time_attr = time_attr
        self._seed = seed
        self._random = random.Random(0 if seed is None else seed)

    @property
    def time_attr(self) -> str:
        """The key of the result that is the time of a trial."""
        return self._time_attr

    def set_search_properties(self, metric: str | None, mode: str | None, **experiment: Any) -> bool:
        """Take metric, mode and seed of the experiment if they are not set. Return False if metric or mode differ."""
        if self._seed is None and experiment.get("seed") is not None:
            self._seed = int(experiment["seed"])
            self._random = random.Random(self._seed)
        return super().set_search_properties(metric, mode, **experiment)

    def time_of(self, trial: Trial, result: Report) -> float:
        """Return the time of a result. Raises `MetricError` if the result lacks it."""
        time = number(result, self._time_attr)
        if time is None or math.isnan(time):
            raise self.missing(trial, result, self._time_attr, "time_attr")
        return time

    def score_of(self, trial: Trial, result: Report) -> float:
        """Return the metric, negated if it is minimised, or `WORST` for NaN. Raises `MetricError` if it is missing."""
        value = number(result, metric_in(result, self.metric))
        if value is None:
            raise self.missing(trial, result, self.metric, "metric")
        if value != value:
            return WORST
        return value if self._mode != "min" else -value

    def has_both(self, result: Report) -> bool:
        """Return whether a result has metric and time."""
        time = number(result, self._time_attr)
        return time is not None and not math.isnan(time) and number(result, metric_in(result, self.metric)) is not None

    def missing(self, trial: Trial, result: Report, key: str, argument: str) -> MetricError:
        """Return the error that names the missing key and the trial, and lists the keys that it has reported."""
        value = look_up(result, key)
        what = f"reported no {key!r}" if value is None else f"reported {value!r} as {key!r}, which is not a number"
        return MetricError(
            f"trial {trial} {what}, and {type(self).__name__} decides by it ({argument}={key!r}). "
            f"It reported: {own_keys(result)}. Report {key!r} with every result, or give another {argument}."
        )

    def get_state(self) -> dict[str, Any]:
        """Return the state that further decisions depend on, without given functions. It can be pickled."""
        return dict(self.__dict__)

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state that `get_state` has returned."""
        self.__dict__.update(state)

    def save(self, checkpoint_path: str) -> None:
        """Write the state into a file."""
        Path(checkpoint_path).write_bytes(pickle.dumps(self.get_state()))

    def restore(self, checkpoint_path: str) -> None:
        """Restore the state from a file that `save` has written, in a scheduler with the same arguments."""
        self.set_state(pickle.loads(Path(checkpoint_path).read_bytes()))


def number(result: Report, key: str) -> float | None:
    """Return the number under a key or path of the result as a float, or None."""
    value = result.get(key)
    if value is None:
        value = look_up(result, key)
        if value is None:
            return None
    if isinstance(value, str):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def first_that_fits(runner: Controller, trials: Iterable[Trial]) -> Trial | None:
    """Return the first of these trials that may be started and for which there are resources, or None.

    After a trial that did not fit, others with the same resources are skipped.
    """
    refused: list[Any] = []
    for trial in trials:
        if trial.status not in (Status.PENDING, Status.PAUSED) or trial.resources in refused:
            continue
        if runner.has_resources_for_trial(trial):
            return trial
        refused.append(trial.resources)
    return None

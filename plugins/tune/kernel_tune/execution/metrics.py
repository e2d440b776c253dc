"""Checks that trials report the metric and save the states that searchers and schedulers need."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

from kernel_runs.reports import DEFAULT_METRIC, Report, flatten, look_up, own_keys
from kernel_tune.errors import MetricError
from kernel_tune.searchers.base import Searcher
from kernel_tune.trial import Trial

_LENIENT = "TUNE_DISABLE_STRICT_METRIC_CHECKING"


class MetricWatch:
    """Looks for faults in results. Each kind of fault is reported once, for the first trial that has it."""

    def __init__(self, wanted: Sequence[tuple[str, str]]) -> None:
        self._wanted = [(metric, who) for metric, who in wanted if metric and metric != DEFAULT_METRIC]
        self._said: set[tuple[str, str]] = set()
        self._reported: set[str] = set()

    def look(self, trial: Trial, results: Sequence[Report]) -> list[str]:
        """Return warnings about the results of a trial."""
        found = []
        for metric, who in self._wanted:
            if metric not in self._reported and any(metric in flatten(result) for result in results):
                self._reported.add(metric)
            for result in results:
                kind = _fault(look_up(result, metric))
                if kind and (kind, metric) not in self._said:
                    self._said.add((kind, metric))
                    found.append(_text(kind, trial, metric, who, result))
        return found

    def check_reported(self, trial: Trial, trials: Sequence[Trial]) -> None:
        """Raise MetricError if a trial has ended, and no trial so far has ever reported a metric.

        `TUNE_DISABLE_STRICT_METRIC_CHECKING=1` in the environment, which programs for Ray may set, turns this check
        off.
        """
        if os.environ.get(_LENIENT) == "1":
            return
        for metric, who in self._wanted:
            if metric in self._reported or any(metric in flatten(each.last_result) for each in trials):
                continue
            raise MetricError(
                f"trial {trial} has ended and has never reported {metric!r}, and {who} goes by it "
                f"(metric={metric!r}). It reported: {own_keys(trial.last_result)}. Report {metric!r} with the results, "
                "or give another metric"
            )

    def nothing_saved(self, trial: Trial, who: str) -> list[str]:
        """Return a warning about a function that was to be saved but reports no checkpoint."""
        if ("saved", who) in self._said:
            return []
        self._said.add(("saved", who))
        return [
            f"trial {trial} has saved nothing, and {who} needs its state: no other trial can go on from it, and if it "
            "is paused it begins anew. Have the function report(metrics, checkpoint=...) and begin where "
            "get_checkpoint() says, or use a Trainable class. Further ones are not warned of"
        ]


def wanted_metrics(metric: str | Sequence[str] | None, algorithm: Any) -> list[tuple[str, str]]:
    """Return the metrics that results should have, each with the name of what needs it."""
    searcher = getattr(algorithm, "searcher", algorithm)
    of_searcher = getattr(searcher, "metric", None)
    names = [of_searcher] if isinstance(of_searcher, str) else list(of_searcher or ())
    hears = getattr(type(searcher), "on_trial_complete", None) is not Searcher.on_trial_complete
    learns = hears and getattr(searcher, "learns", True)
    found = {str(name): type(searcher).__name__ for name in names if learns}
    for name in [metric] if isinstance(metric, str) else metric or ():
        found.setdefault(str(name), "the search for the best trial")
    return list(found.items())


def _fault(value: Any) -> str:
    if value is None:
        return "missing"
    try:
        return "NaN" if math.isnan(value) else ""
    except TypeError:
        return "no number"


def _text(kind: str, trial: Trial, metric: str, who: str, result: Report) -> str:
    iteration = result.get("training_iteration")
    if kind == "NaN":
        return (
            f"trial {trial} reported NaN as {metric!r} in iteration {iteration}, which counts as worse than every "
            "number. Further ones are not warned of"
        )
    value = look_up(result, metric)
    lacks = metric not in flatten(result)
    what = f"no {metric!r}" if lacks else f"{value!r}, which is not a number, as {metric!r}"
    return (
        f"trial {trial} reported {what} in iteration {iteration}, and {who} goes by it. It reported: "
        f"{own_keys(result)}. Such results count for nothing: report {metric!r} with every result, or give another "
        "metric. Further ones are not warned of"
    )

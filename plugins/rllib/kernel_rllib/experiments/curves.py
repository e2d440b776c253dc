"""Curves of runs: a metric over steps, as it is in the files of results."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass

from kernel_rllib.errors import ConfigError
from kernel_rllib.nearest import did_you_mean
from kernel_runs.loggers.json_logger import RESULT_FILE
from kernel_runs.reports import Report, flatten, look_up

COLOURS = ("#4f46e5", "#f97316", "#0891b2", "#16a34a", "#dc2626", "#9333ea", "#ca8a04", "#64748b", "#db2777", "#65a30d")
"""One for each run, from the first again where there are more."""
WORDS = {
    "episode_reward_mean": "mean return of the last episodes",
    "timesteps_total": "environment steps",
    "time_total_s": "seconds of training",
    "training_iteration": "iterations",
}
"""The labels of axes, by metric."""


@dataclass(frozen=True)
class Curve:
    """The points of one run.

    Attributes:
        name: The run's directory, by its name.
        path: That directory.
        x: Over what it goes, never less than before.
        y: The metric, of the same length.
    """

    name: str
    path: str
    x: list[float]
    y: list[float]


def curves_in(directories: Iterable[str], metric: str, over: str) -> list[Curve]:
    """Return the curves of all runs in some directories, by the names of their own.

    Args:
        directories: Those of runs, or of what has runs in it.
        metric: The name of the metric that is drawn.
        over: The name of the metric on the other axis.

    Raises:
        ConfigError: If a directory is not there or has no runs, or no result has the metric.
    """
    found: dict[str, Curve] = {}
    for given in directories:
        root = os.path.abspath(os.path.expanduser(given))
        files = sorted(os.path.join(folder, RESULT_FILE) for folder, _, names in os.walk(root) if RESULT_FILE in names)
        if not files:
            there = "has no runs: no directory in it has a result.json" if os.path.isdir(root) else "is not there"
            raise ConfigError(f"the directory {given} {there}. Give that of a run or of an experiment")
        for file in files:
            folder = os.path.dirname(file)
            found[folder] = _curve(folder, _results(file), metric, over)
    curves = [curve for curve in found.values() if curve.x]
    if not curves:
        raise ConfigError(f"no run has a number {metric!r} in its results yet: let it end an episode at least")
    return sorted(curves, key=lambda curve: curve.name)


def _results(file: str) -> list[Report]:
    """Return what a file of results has; the last line may be half written."""
    found = []
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            try:
                found.append(json.loads(line))
            except ValueError:
                break
    return found


def _curve(folder: str, results: list[Report], metric: str, over: str) -> Curve:
    for key in (metric, over):
        if results and all(look_up(result, key) is None for result in results) and key not in results[0]:
            known = flatten(results[-1])
            raise ConfigError(f"the run {folder} has no {key!r} in its results{did_you_mean(key, known)}")
    points = [(look_up(result, over), look_up(result, metric)) for result in results]
    kept = [(float(x), float(y)) for x, y in points if _is_number(x) and _is_number(y)]
    return Curve(os.path.basename(folder), folder, [x for x, _ in kept], [y for _, y in kept])


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)

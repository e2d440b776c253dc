"""Parameter importance: the share of the differences between trials that each parameter explains."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from kernel_tune.analysis.data import ExperimentData, Source, data_of
from kernel_tune.analysis.importance import importance
from kernel_tune.analysis.plots.style import ACCENT, INK, SOFT, figure, nothing, save, shortened, tidy

_FEWEST = 6


def parameter_importance(
    source: Source, path: str | os.PathLike[str], metric: str | None = None, mode: str | None = None
) -> str:
    """Draw the share of the metric's variance that each parameter alone explains (functional ANOVA)."""
    return save(importance_figure(data_of(source, metric, mode)), path)


def importances(data: ExperimentData, seed: int = 0) -> dict[str, float]:
    """Return the share of the variance that each parameter explains, largest first; {} for too few trials.

    A trial without a value for a parameter is placed in the middle of its range.
    """
    trials = data.compared
    if len(trials) < _FEWEST or not data.axes:
        return {}
    positions = [[axis.position(trial.parameters.get(axis.name)) for axis in data.axes] for trial in trials]
    points = np.array([[0.5 if value is None else value for value in row] for row in positions])
    scores = np.array([trial.score for trial in trials], dtype=float)
    shares = importance(points, scores, [len(axis.categories) for axis in data.axes], seed)
    found = zip((axis.name for axis in data.axes), shares.tolist(), strict=True)
    return dict(sorted(found, key=lambda pair: -pair[1]))


def importance_figure(data: ExperimentData) -> Any:
    """Return the plot as a matplotlib figure."""
    found = importances(data)
    if not found:
        return nothing(data, f"importance needs at least {_FEWEST} trials with {data.metric} that differ")
    names = list(found)[:15][::-1]
    picture = figure(9, 1.1 + 0.42 * len(names))
    axes = picture.subplots()
    tidy(axes, f"What {data.metric} depends on", "share of the variance explained by the parameter alone")
    axes.grid(False, axis="y")
    axes.barh([shortened(name, 28) for name in names], [found[name] for name in names], color=ACCENT, height=0.62)
    greatest = max(0.05, *found.values())
    for place, name in enumerate(names):
        axes.text(found[name] + 0.012 * greatest, place, f"{found[name]:.0%}", va="center", fontsize=8.5, color=INK)
    axes.set_xlim(0, 1.12 * greatest)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.tick_params(axis="y", labelsize=9, labelcolor=INK)
    axes.spines["left"].set_color(SOFT)
    return picture

"""Slices: the metric against each parameter."""

from __future__ import annotations

import os
from typing import Any

from kernel_tune.analysis.data import Axis, ExperimentData, Source, TrialData, data_of
from kernel_tune.analysis.plots.bars import importances
from kernel_tune.analysis.plots.style import BEST, INK, figure, limits, nothing, save, set_scale, shades, tidy

_MOST = 9
_COLUMNS = 3


def slices(source: Source, path: str | os.PathLike[str], metric: str | None = None, mode: str | None = None) -> str:
    """Draw the last metric of the trials against each parameter, the most important parameters first."""
    return save(slices_figure(data_of(source, metric, mode)), path)


def slices_figure(data: ExperimentData) -> Any:
    """Return the plot as a matplotlib figure."""
    trials = data.compared
    if not trials or not data.axes:
        return nothing(
            data, "no parameter differs between trials" if trials else f"no trial has reported {data.metric}"
        )
    shares = importances(data)
    chosen = sorted(data.axes, key=lambda axis: -shares.get(axis.name, 0.0))[:_MOST]
    columns = min(_COLUMNS, len(chosen))
    rows = -(-len(chosen) // columns)
    picture = figure(9 if columns > 1 else 6, 0.4 + 2.7 * rows)
    grid = picture.subplots(rows, columns, squeeze=False)
    colours = shades(data)
    shown = limits([trial.score for trial in trials if trial.score is not None])
    for place, axes in enumerate(grid.flat):
        if place >= len(chosen):
            axes.set_axis_off()
            continue
        _slice(axes, chosen[place], trials, data.best, colours)
        tidy(axes, "", chosen[place].name, data.metric if place % columns == 0 else "")
        axes.xaxis.label.set_color(INK)
        if shown is not None:
            axes.set_ylim(*shown)
    return picture


def _slice(axes: Any, axis: Axis, trials: list[TrialData], best: TrialData | None, colours: dict[str, Any]) -> None:
    set_scale(axes, axis)
    for trial in trials:
        value = trial.parameters.get(axis.name)
        if value is None:
            continue
        across = axis.categories.index(str(value)) if axis.categories else float(value)
        is_best = trial is best
        axes.scatter([across], [trial.score], s=64 if is_best else 26, alpha=1.0 if is_best else 0.8,
                     color=BEST if is_best else colours[trial.trial.logdir], edgecolors="white", linewidths=0.7,
                     zorder=5 if is_best else 3)  # fmt: skip

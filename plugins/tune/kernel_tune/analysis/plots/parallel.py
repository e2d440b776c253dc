"""Parallel coordinates: one line for each trial, through its parameters to its score."""

from __future__ import annotations

import os
from typing import Any

from kernel_runs.optional import needed
from kernel_tune.analysis.data import Axis, ExperimentData, Source, data_of
from kernel_tune.analysis.plots.style import BEST, INK, LINE, SOFT, figure, nothing, save, shades, shortened

_MOST_AXES = 12


def parallel_coordinates(
    source: Source, path: str | os.PathLike[str], metric: str | None = None, mode: str | None = None
) -> str:
    """Draw each trial as a line through its parameters to its last metric. The best is orange, better ones darker."""
    return save(parallel_figure(data_of(source, metric, mode)), path)


def parallel_figure(data: ExperimentData) -> Any:
    """Return the plot as a matplotlib figure."""
    trials = data.compared
    if not trials or not data.axes:
        return nothing(
            data, "no parameter differs between trials" if trials else f"no trial has reported {data.metric}"
        )
    axes = data.axes[: _MOST_AXES - 1]
    last = Axis(data.metric, min(t.score or 0.0 for t in trials), max(t.score or 0.0 for t in trials))
    picture = figure(max(6.5, 1.7 * (len(axes) + 1)), 4.6)
    canvas = picture.subplots()
    canvas.set_axis_off()
    canvas.set_xlim(-0.35, len(axes) + 0.35)
    canvas.set_ylim(-0.1, 1.17)
    colours = shades(data)
    for place, trial in enumerate(trials):
        heights = [axis.position(trial.parameters.get(axis.name)) for axis in axes] + [last.position(trial.score)]
        best = trial is data.best
        _line(canvas, heights, BEST if best else colours[trial.trial.logdir], 2.4 if best else 1.1,
              1.0 if best else 0.35 + 0.5 * place / len(trials), 5 if best else 2 + place / 1e4)  # fmt: skip
    for place, axis in enumerate([*axes, last]):
        _ruler(canvas, place, axis, emphasised=axis is last)
    return picture


def _line(canvas: Any, heights: list[float | None], colour: Any, width: float, alpha: float, order: float) -> None:
    """Draw a smooth line. It has gaps where a trial has no value."""
    path = needed("matplotlib.path", "a picture of an experiment", '"kernel-tune[plots]"').Path
    patch = needed("matplotlib.patches", "a picture of an experiment", '"kernel-tune[plots]"').PathPatch
    points: list[tuple[float, float]] = []
    codes: list[Any] = []
    for place in range(len(heights) - 1):
        begin, end = heights[place], heights[place + 1]
        if begin is not None and end is not None:
            points += [(place, begin), (place + 0.45, begin), (place + 0.55, end), (place + 1, end)]
            codes += [path.MOVETO, path.CURVE4, path.CURVE4, path.CURVE4]
    if points:
        canvas.add_patch(patch(path(points, codes), fill=False, edgecolor=colour, linewidth=width, alpha=alpha,
                               zorder=order, capstyle="round"))  # fmt: skip


def _ruler(canvas: Any, place: int, axis: Axis, emphasised: bool) -> None:
    """Draw an axis with its name above it, and some of its values beside it."""
    canvas.plot([place, place], [0, 1], color=INK if emphasised else SOFT, linewidth=1.4, zorder=7)
    canvas.text(place, 1.1, shortened(axis.name), ha="center", va="bottom", fontsize=9.5, color=INK,
                fontweight="bold" if emphasised else "normal", zorder=8)  # fmt: skip
    behind = {"facecolor": "white", "edgecolor": LINE, "alpha": 0.85, "pad": 1.2, "linewidth": 0.4}
    for height, text in _marks(axis):
        canvas.plot([place - 0.025, place + 0.025], [height, height], color=SOFT, linewidth=1, zorder=7)
        canvas.text(place + 0.05, height, text, ha="left", va="center", fontsize=7.5, color=SOFT, zorder=8,
                    bbox=behind)  # fmt: skip


def _marks(axis: Axis) -> list[tuple[float, str]]:
    """Return the positions of an axis' marks, and their texts."""
    if axis.categories:
        step = -(-len(axis.categories) // 8)
        return [(axis.position(name) or 0.0, shortened(name, 14)) for name in axis.categories[::step]]
    marks = []
    for height in (0, 0.25, 0.5, 0.75, 1):
        value = axis.low * (axis.high / axis.low) ** height if axis.is_logarithmic else (
            axis.low + height * (axis.high - axis.low))  # fmt: skip
        marks.append((height, f"{value:.3g}"))
    return marks if axis.high > axis.low else [(0.5, f"{axis.low:.3g}")]

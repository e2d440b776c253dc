"""Learning curves: the metric of each trial, step by step."""

from __future__ import annotations

import os
from typing import Any

from kernel_tune.analysis.data import ExperimentData, Source, data_of
from kernel_tune.analysis.plots.style import BEST, SOFT, figure, label_of, limits, nothing, save, shades, tidy


def learning_curves(
    source: Source, path: str | os.PathLike[str], metric: str | None = None, mode: str | None = None
) -> str:
    """Draw the metric of each trial by its iterations. Better trials are darker, the best one is orange."""
    return save(curves_figure(data_of(source, metric, mode)), path)


def curves_figure(data: ExperimentData) -> Any:
    """Return the plot as a matplotlib figure."""
    drawn = [trial for trial in data.trials if trial.values]
    if not drawn:
        return nothing(data, f"no trial has reported {data.metric}")
    picture = figure(9, 4.6)
    axes = picture.subplots()
    tidy(axes, f"{data.metric} of {len(drawn)} trials", "iteration", data.metric)
    colours = shades(data)
    many = len(drawn) > 40
    order = {trial.trial.logdir: place for place, trial in enumerate(data.compared)}
    for trial in drawn:
        if trial is not data.best:
            place = order.get(trial.trial.logdir, 0)
            dotted = {"marker": ".", "markersize": 4} if len(trial.steps) == 1 else {}
            axes.plot(trial.steps, trial.values, color=colours.get(trial.trial.logdir, SOFT), zorder=2 + place / 1e4,
                      linewidth=0.9 if many else 1.3, alpha=0.75, **dotted)  # fmt: skip
    if data.best is not None:
        best = data.best
        axes.plot(best.steps, best.values, color=BEST, linewidth=2.4, zorder=5, label=f"best: {label_of(best)}")
        axes.plot(best.steps[-1:], best.values[-1:], "o", color=BEST, markersize=6, zorder=6,
                  markeredgecolor="white", markeredgewidth=1.2)  # fmt: skip
        axes.legend(frameon=False, fontsize=8, labelcolor=SOFT, loc="best")
    shown = limits([value for trial in drawn for value in trial.values])
    if shown is not None:
        axes.set_ylim(*shown)
    axes.xaxis.get_major_locator().set_params(integer=True)
    return picture

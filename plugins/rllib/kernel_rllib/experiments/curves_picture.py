"""Curves as a PNG picture, drawn by matplotlib."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from kernel_rllib.experiments.curves import COLOURS, WORDS, Curve
from kernel_runs.loggers.files import written_whole
from kernel_runs.optional import needed

_INK, _SOFT, _LINE = "#1f2937", "#6b7280", "#e5e7eb"


def write_picture(curves: Sequence[Curve], path: str, metric: str, over: str) -> str:
    """Write a PNG picture of curves, and return its path. Raises OptionalDependencyError without matplotlib."""
    # without pyplot: no window, no global state
    made = needed("matplotlib.figure", "a PNG picture (FILE.html needs nothing)", '"kernel-rllib[plots]"')
    place = os.path.abspath(os.path.expanduser(path))
    figure = made.Figure(figsize=(9, 5 + 0.22 * max(len(curves) - 1, 0)), facecolor="white", layout="constrained")
    axes = figure.add_subplot()
    for number, curve in enumerate(curves):
        marker = "o" if len(curve.x) == 1 else ""
        look: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "linewidth": 1.8, "marker": marker}
        axes.plot(curve.x, curve.y, label=curve.name, **look)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(_LINE)
    axes.tick_params(which="both", colors=_SOFT, labelsize=9, length=0)
    axes.grid(True, color=_LINE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    axes.set_xlabel(WORDS.get(over, over), color=_SOFT)
    axes.set_ylabel(WORDS.get(metric, metric), color=_SOFT)
    figure.legend(loc="outside lower center", fontsize=8, frameon=False, labelcolor=_INK)
    with written_whole(place) as unfinished:
        figure.savefig(unfinished, format="png", dpi=130)
    return place

"""The style of all plots."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernel_runs.optional import needed
from kernel_tune.analysis.data import Axis, ExperimentData

INK = "#1f2937"
SOFT = "#6b7280"
LINE = "#e5e7eb"
BEST = "#f97316"
ACCENT = "#4f46e5"
_SHADES = ("#cbd5e1", "#93a5d8", "#6366f1", "#3730a3")
_DOTS_PER_INCH = 160


def figure(width: float, height: float) -> Any:
    """Return a new matplotlib figure, in inches. pyplot is not used: it has windows and global state."""
    module = needed("matplotlib.figure", "a picture of an experiment", '"kernel-tune[plots]"')
    return module.Figure(figsize=(width, height), facecolor="white", layout="constrained")


def tidy(axes: Any, title: str = "", x: str = "", y: str = "") -> None:
    """Give axes their labels and a light grid, without a frame."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(LINE)
    axes.tick_params(which="both", colors=SOFT, labelsize=8, length=0)
    axes.grid(True, color=LINE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_xlabel(x, color=SOFT, fontsize=9)
    axes.set_ylabel(y, color=SOFT, fontsize=9)
    if title:
        axes.set_title(title, loc="left", color=INK, fontsize=11, fontweight="bold", pad=10)


def shades(data: ExperimentData) -> dict[str, Any]:
    """Return a colour for each compared trial, by its directory. Better trials are darker."""
    colors = needed("matplotlib.colors", "a picture of an experiment", '"kernel-tune[plots]"')
    scale = colors.LinearSegmentedColormap.from_list("kernel", _SHADES)
    ranked = data.compared
    last = max(1, len(ranked) - 1)
    return {trial.trial.logdir: scale(place / last) for place, trial in enumerate(ranked)}


def label_of(trial: Any) -> str:
    """Return the label of a trial."""
    return str(trial.trial)


def limits(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the range of an axis for these numbers, in which a few distant ones may be left out; None without any."""
    if not values:
        return None
    array = np.asarray(values, dtype=float)
    low, high = float(array.min()), float(array.max())
    inner_low, inner_high = (float(value) for value in np.percentile(array, [2, 98]))
    reach = 1.5 * (inner_high - inner_low)
    if reach > 0:
        low, high = max(low, inner_low - reach), min(high, inner_high + reach)
    margin = 0.04 * (high - low) or abs(high) * 0.1 or 1.0
    return low - margin, high + margin


def set_scale(axes: Any, axis: Axis) -> None:
    """Scale the horizontal axis for a parameter."""
    if axis.is_logarithmic:
        axes.set_xscale("log")
    if axis.categories:
        axes.set_xticks(range(len(axis.categories)), [shortened(name) for name in axis.categories])
        axes.set_xlim(-0.6, len(axis.categories) - 0.4)


def shortened(text: str, length: int = 18) -> str:
    """Return a text, shortened to a length."""
    return text if len(text) <= length else text[: length - 1] + "…"


def nothing(data: ExperimentData, said: str) -> Any:
    """Return an empty plot with a text that says why it is empty."""
    picture = figure(8, 2)
    picture.text(0.5, 0.5, said, ha="center", va="center", color=SOFT, fontsize=11)
    return picture


def as_png(picture: Any) -> bytes:
    """Return a figure as the bytes of a PNG file."""
    out = io.BytesIO()
    picture.savefig(out, format="png", dpi=_DOTS_PER_INCH)
    return out.getvalue()


def save(picture: Any, path: str | os.PathLike[str]) -> str:
    """Write a figure as a PNG file, in a directory that is created if needed. Return the path."""
    place = os.path.abspath(os.path.expanduser(os.fspath(path)))
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place, "wb") as file:
        file.write(as_png(picture))
    return place

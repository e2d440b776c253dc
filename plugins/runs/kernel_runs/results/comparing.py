"""Which of several runs is best."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from typing import Any

from kernel_runs.reports import Report, look_up

SCOPES = ("last", "all", "avg", "last-5-avg", "last-10-avg")
"""What of a run counts: its last value, its best one, the mean of all, of the last five, of the last ten."""


def check(mode: str | None, scope: str = "last") -> None:
    """Raise ValueError if a mode or a scope is not one of those there are."""
    if mode not in ("min", "max"):
        raise ValueError(f"mode is {mode!r}: it is 'min' or 'max'")
    if scope not in SCOPES:
        raise ValueError(f"scope is {scope!r}: it is one of {', '.join(map(repr, SCOPES))}")


def number(value: Any, finite: bool = True) -> float | None:
    """Return a value as a number; None if it is none, is NaN, or is infinite where only `finite` ones count."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or math.isnan(value):
        return None
    return float(value) if not finite or math.isfinite(value) else None


def score(history: Sequence[Report], metric: str, mode: str, scope: str, finite: bool = True) -> float | None:
    """Return by what a run is compared; None if it has no such value.

    With "last", a run whose last value does not count has none; the other scopes leave out single values.
    """
    if scope == "last":
        return number(look_up(history[-1], metric), finite) if history else None
    values = [value for value in (number(look_up(result, metric), finite) for result in history) if value is not None]
    if not values:
        return None
    if scope == "all":
        return max(values) if mode == "max" else min(values)
    if scope != "avg":
        values = values[-int(scope.split("-")[1]) :]
    return math.fsum(values) / len(values)


def best_of(scored: Iterable[tuple[Any, float | None]], mode: str) -> Any:
    """Return what has the best score, the first of equal ones; None if nothing has a score."""
    best, sign = None, 1.0 if mode == "max" else -1.0
    value = 0.0
    for item, its in scored:
        if its is not None and (best is None or sign * its > sign * value):
            best, value = item, its
    return best

"""Comparing runs by a metric."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from typing import Any

from kernel_runs.reports import Report, look_up

SCOPES = ("last", "all", "avg", "last-5-avg", "last-10-avg")
"""The value that a run is compared by: its last one, its best one, or the mean of all, the last 5 or the last 10."""


def check(mode: str | None, scope: str = "last") -> None:
    """Raise ValueError for an unknown mode or scope."""
    if mode not in ("min", "max"):
        raise ValueError(f"mode is {mode!r}: it is 'min' or 'max'")
    if scope not in SCOPES:
        raise ValueError(f"scope is {scope!r}: it is one of {', '.join(map(repr, SCOPES))}")


def number(value: Any, finite: bool = True) -> float | None:
    """Return a value as a number; None if it is not a number, is NaN, or is infinite while `finite` is set."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or math.isnan(value):
        return None
    return float(value) if not finite or math.isfinite(value) else None


def score(history: Sequence[Report], metric: str, mode: str, scope: str, finite: bool = True) -> float | None:
    """Return the value that a run is compared by, or None if it has no such value.

    With "last", the score is None if the last value does not count; the other scopes ignore such values.
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
    """Return the item with the best score, the first of equal ones; None if no item has a score."""
    best, sign = None, 1.0 if mode == "max" else -1.0
    value = 0.0
    for item, its in scored:
        if its is not None and (best is None or sign * its > sign * value):
            best, value = item, its
    return best

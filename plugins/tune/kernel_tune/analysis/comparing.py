"""Which of several trials is best."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kernel_tune.result import Result, look_up
from kernel_tune.trial import Trial

SCOPES = ("last", "all", "avg", "last-5-avg", "last-10-avg")
"""What of a trial counts: its last value, its best one, the mean of all, of the last five, of the last ten."""


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


def score(history: Sequence[Result], metric: str, mode: str, scope: str, finite: bool = True) -> float | None:
    """Return by what a trial is compared; None if it has no such value.

    With "last", a trial whose last value does not count has none; the other scopes leave out single values.
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


def score_of(
    trial: Trial, history: Callable[[Trial], Sequence[Result]], metric: str, mode: str, scope: str, finite: bool = True
) -> float | None:
    """Return the `score` of a trial, from what is in memory where that is enough."""
    if scope == "last" and trial.last_result:
        return score([trial.last_result], metric, mode, scope, finite)
    kept = trial.metrics.get(metric)
    if scope == "all" and kept is not None and math.isfinite(kept.max) and math.isfinite(kept.min):
        return kept.max if mode == "max" else kept.min
    return score(history(trial), metric, mode, scope, finite)


def best_of(scored: Iterable[tuple[Any, float | None]], mode: str) -> Any:
    """Return what has the best score, the first of equal ones; None if nothing has a score."""
    best, sign = None, 1.0 if mode == "max" else -1.0
    value = 0.0
    for item, its in scored:
        if its is not None and (best is None or sign * its > sign * value):
            best, value = item, its
    return best

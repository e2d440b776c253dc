"""Comparing trials by a metric."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from kernel_runs.reports import Report
from kernel_runs.results.comparing import SCOPES, best_of, check, number, score
from kernel_tune.trial import Trial

__all__ = ["SCOPES", "best_of", "check", "number", "score", "score_of"]


def score_of(
    trial: Trial, history: Callable[[Trial], Sequence[Report]], metric: str, mode: str, scope: str, finite: bool = True
) -> float | None:
    """Return the `score` of a trial, from values in memory if these suffice."""
    if scope == "last" and trial.last_result:
        return score([trial.last_result], metric, mode, scope, finite)
    kept = trial.metrics.get(metric)
    if scope == "all" and kept is not None and math.isfinite(kept.max) and math.isfinite(kept.min):
        return kept.max if mode == "max" else kept.min
    return score(history(trial), metric, mode, scope, finite)

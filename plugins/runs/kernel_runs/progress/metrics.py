"""The metrics of a report that are shown by default."""

from __future__ import annotations

import numbers
from collections.abc import Iterable

from kernel_runs.reports import (
    AUTO_KEYS,
    EPISODE_REWARD_MEAN,
    MEAN_ACCURACY,
    MEAN_LOSS,
    SHOULD_CHECKPOINT,
    TIME_TOTAL_S,
    TIMESTEPS_THIS_ITER,
    TIMESTEPS_TOTAL,
    TRAINING_ITERATION,
    Report,
)

FIRST_METRICS = {MEAN_ACCURACY: "acc", MEAN_LOSS: "loss", EPISODE_REWARD_MEAN: "reward"}
LAST_METRICS = {TIME_TOTAL_S: "total time (s)", TRAINING_ITERATION: "iter", TIMESTEPS_TOTAL: "ts"}
"""Metrics that are always shown if they are reported; other metrics of the run stand between these and the first."""
_NEVER_INFERRED = {*AUTO_KEYS, *FIRST_METRICS, *LAST_METRICS, SHOULD_CHECKPOINT, TIMESTEPS_THIS_ITER}


def own_numbers(reports: Iterable[Report], limit: int) -> list[str]:
    """Return the keys of up to `limit` reported numbers that are not always shown."""
    found: dict[str, None] = {}
    for report in reports:
        for key, value in report.items():
            if key not in _NEVER_INFERRED and isinstance(value, numbers.Real) and not isinstance(value, bool):
                found[str(key)] = None
                if len(found) >= limit:
                    return list(found)[:limit]
    return list(found)

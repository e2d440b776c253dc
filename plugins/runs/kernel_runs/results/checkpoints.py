"""The checkpoints in a trial's directory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from kernel_runs.reports import TRAINING_ITERATION, Report, look_up
from kernel_runs.results.comparing import number
from kernel_runs.storage.directories import checkpoint_directories

_NAMED_IN_RESULT = "checkpoint_dir_name"


def checkpoints_with_results(directory: str, history: Sequence[Report]) -> list[tuple[str, Report]]:
    """Return the path of each checkpoint with the result after which it was saved, as far as that is known."""
    by_name = {result[_NAMED_IN_RESULT]: result for result in history if result.get(_NAMED_IN_RESULT)}
    by_iteration = {result.get(TRAINING_ITERATION): result for result in history}
    return [
        (path, by_name.get(os.path.basename(path)) or by_iteration.get(iteration) or {TRAINING_ITERATION: iteration})
        for iteration, path in checkpoint_directories(directory)
    ]


def best_checkpoint_path(found: Sequence[tuple[str, Report]], metric: str, mode: str) -> str | None:
    """Return the path of the checkpoint with the best result, the newest of equal ones; None if none has the metric."""
    sign = 1.0 if mode == "max" else -1.0
    valued = [(number(look_up(result, metric)), place) for place, (_, result) in enumerate(found)]
    scored = [(sign * value, place) for value, place in valued if value is not None]
    return found[max(scored)[1]][0] if scored else None


def checkpoint_at(path: str) -> Any:
    """Return a `Checkpoint` for a directory."""
    from kernel_runs.checkpoint import Checkpoint  # here: it imports much that only users of checkpoints need

    return Checkpoint(path)

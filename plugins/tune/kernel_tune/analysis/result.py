"""The result of one trial of an experiment."""

from __future__ import annotations

from kernel_runs.results.result import Result, checkpoints_in
from kernel_tune.raised import error_of
from kernel_tune.trial import Trial

__all__ = ["Result", "result_of"]


def result_of(trial: Trial) -> Result:
    """Return the result of a trial."""
    found = checkpoints_in(trial.logdir)
    return Result(
        metrics=dict(trial.last_result),
        checkpoint=found[-1][0] if found else None,
        error=error_of(trial),
        path=trial.logdir,
        best_checkpoints=found,
        _config=trial.config,
    )

"""The status block, which is printed to a terminal or a file every few seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_runs.progress.text import text_table
from kernel_runs.reports import (
    EPISODE_REWARD_MEAN,
    MEAN_ACCURACY,
    MEAN_LOSS,
    PID,
    TIME_TOTAL_S,
    TIMESTEPS_TOTAL,
    look_up,
)
from kernel_tune.reporters.trials_table import Columns, by_status, parameter_of
from kernel_tune.trial import Status, Trial

_LISTED = 5
_SUMMARY = {
    TIME_TOTAL_S: "s", TIMESTEPS_TOTAL: "ts", EPISODE_REWARD_MEAN: "rew", MEAN_LOSS: "loss", MEAN_ACCURACY: "acc",
}  # fmt: skip


def counts(trials: Sequence[Trial], expected: int | None = None) -> str:
    """Return `Number of trials: 4/10 (1 PENDING, 3 RUNNING)`."""
    groups = by_status(trials)
    listed = ", ".join(f"{len(groups[status])} {status}" for status in sorted(groups, key=str))
    of = f"/{expected}" if expected else ""
    return f"Number of trials: {len(trials)}{of} ({listed})" if trials else f"Number of trials: 0{of}"


def best_line(trial: Trial, metric: str, parameters: Columns = ()) -> str:
    """Return a line about the best trial so far."""
    keys = list(parameters) or list(trial.evaluated_params) or list(trial.config)
    chosen = {key: parameter_of(trial, key) for key in keys}
    return f"Current best trial: {trial.trial_id} with {metric}={trial.value(metric)} and parameters={chosen}"


def errors_block(trials: Sequence[Trial], rows: int | None = None) -> list[str]:
    """Return a table of failed trials, at most `rows`, with the number of failures and the file with the error.

    A star marks trials that run again after a failure.
    """
    failed = [trial for trial in trials if trial.error_file or trial.status is Status.ERROR]
    if not failed:
        return []
    shown = failed if rows is None else failed[:rows]
    lines = [f"Number of errored trials: {len(failed)}"]
    if len(shown) < len(failed):
        lines.append(f"Table truncated to {len(shown)} rows ({len(failed) - len(shown)} overflow)")
    cells: list[list[Any]] = [
        [str(trial), f"{trial.failures}{'' if trial.status is Status.ERROR else '*'}", trial.error_file]
        for trial in shown
    ]
    lines.append(text_table(["Trial name", "# failures", "error file"], cells))
    if any(trial.status is not Status.ERROR for trial in shown):
        lines.append("* The trial was tried again.")
    return lines


def grouped_listing(trials: Sequence[Trial], listed: int = _LISTED) -> list[str]:
    """Return a listing without a table: a few lines for each status, and how many more trials there are."""
    lines = []
    groups = by_status(trials)
    for status in sorted(groups, key=str):
        lines.append(f"{status} trials:")
        lines += [f"- {_line(trial)}" for trial in groups[status][:listed]]
        if len(groups[status]) > listed:
            lines.append(f"... {len(groups[status]) - listed} more not shown")
    return lines


def _line(trial: Trial) -> str:
    """Return `f_0_x=1: PAUSED [pid=11664], 0 s, 100 ts, 97.1 rew`."""
    name = f"{trial.trainable_name}_{trial.experiment_tag}" if trial.experiment_tag else str(trial)
    parts = []
    if trial.last_result.get(PID):
        parts.append(f"{trial.status} [pid={trial.last_result[PID]}]")
        for key, unit in _SUMMARY.items():
            value = look_up(trial.last_result, key)
            if value is not None:
                whole = key in (TIME_TOTAL_S, TIMESTEPS_TOTAL)
                parts.append(f"{int(value) if whole else format(value, '.3g')} {unit}")
    return f"{name}: {', '.join(parts) or trial.status}"

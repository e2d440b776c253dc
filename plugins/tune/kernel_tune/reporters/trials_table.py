"""The choice of the trials and of the values that a report displays."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kernel_runs.progress.metrics import own_numbers
from kernel_runs.reports import NODE_IP, PID, Report, look_up
from kernel_tune.trial import Status, Trial

Columns = Mapping[str, str] | Sequence[str]
"""Keys with their headings, or keys alone."""

_LOOKED_AT = 200
"""The number of trials that are searched for metrics."""
_IN_ORDER = (Status.RUNNING, Status.PAUSED, Status.PENDING, Status.TERMINATED, Status.ERROR)


@dataclass(frozen=True)
class Table:
    """Holds a table's header and rows, the trials of these rows, and a line about trials that are not displayed."""

    header: list[str]
    rows: list[list[Any]]
    trials: list[Trial]
    hidden: str = ""


def as_mapping(columns: Columns) -> dict[str, str]:
    """Return a dict of key to heading."""
    return dict(columns) if isinstance(columns, Mapping) else {key: key for key in columns}


def is_number(value: Any) -> bool:
    """Return whether a value can be compared: a number, and not NaN."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and not math.isnan(value)


def inferred_metrics(trials: Iterable[Trial], limit: int) -> dict[str, str]:
    """Return up to `limit` numbers that trials report and that are not always displayed."""
    reported = (trial.last_result for trial in trials if trial.last_result)
    return {key: key for key in own_numbers(islice(reported, _LOOKED_AT), limit)}


def current_best(trials: Iterable[Trial], metric: str | None, mode: str | None) -> Trial | None:
    """Return the trial with the best last result, the first of equal ones; None if none has the metric."""
    best, sign = None, -1.0 if mode == "min" else 1.0
    if metric is None or mode is None:
        return None
    for trial in trials:
        value = trial.value(metric)
        if is_number(value) and (best is None or sign * value > sign * best.value(metric)):
            best = trial
    return best


def by_status(trials: Iterable[Trial]) -> dict[Status, list[Trial]]:
    """Return the trials by status, without empty ones, in the order in which reports display them."""
    groups: dict[Status, list[Trial]] = {status: [] for status in _IN_ORDER}
    for trial in trials:
        groups[trial.status].append(trial)
    return {status: group for status, group in groups.items() if group}


def _fair_shares(groups: Mapping[Status, list[Trial]], rows: int) -> dict[Status, int]:
    """Divide rows among the statuses in turn, so that each is displayed."""
    shares = dict.fromkeys(groups, 0)
    while rows > 0 and any(shares[status] < len(group) for status, group in groups.items()):
        for status, group in groups.items():
            if rows > 0 and shares[status] < len(group):
                shares[status] += 1
                rows -= 1
    return shares


def chosen_trials(
    trials: Sequence[Trial], rows: int | None, metric: str | None = None, mode: str | None = None
) -> tuple[list[Trial], str]:
    """Return the trials to show, at most `rows`, and a line about the others.

    With a metric, terminated trials are sorted by it, best first, those without it last.
    """
    groups = by_status(trials)
    if metric is not None and Status.TERMINATED in groups:
        sign = 1.0 if mode == "min" else -1.0
        ended = groups[Status.TERMINATED]
        order = {id(trial): trial.value(metric) for trial in ended}
        ended.sort(key=lambda trial: sign * order[id(trial)] if is_number(order[id(trial)]) else math.inf)
    if rows is None or len(trials) <= rows:
        return [trial for group in groups.values() for trial in group], ""
    shares = _fair_shares(groups, rows)
    hidden = {status: len(group) - shares[status] for status, group in groups.items()}
    listed = ", ".join(f"{count} {status}" for status, count in hidden.items() if count)
    shown = [trial for status, group in groups.items() for trial in group[: shares[status]]]
    return shown, f"... {len(trials) - len(shown)} more trials not shown ({listed})"


def location_of(trial: Trial) -> str:
    """Return the `address:process` where a trial runs or has reported last, or ""."""
    result = trial.last_result
    if result.get(NODE_IP) and result.get(PID):
        return f"{result[NODE_IP]}:{result[PID]}"
    return trial.location


def parameter_of(trial: Trial, key: str) -> Any:
    """Return a chosen value of a trial, or a value of its configuration."""
    if key in trial.evaluated_params:
        return trial.evaluated_params[key]
    return look_up(trial.config, key)


def shortened(value: Any, length: int) -> Any:
    """Return a value as it is displayed: numbers as such, others as text of at most `length` characters."""
    if value is None or isinstance(value, (bool, numbers.Number)):
        return value
    text = str(value)
    return text if len(text) <= length else f"...{text[3 - length :]}" if length > 3 else text[:length]


def trials_table(
    trials: Sequence[Trial], metrics: Columns, parameters: Columns = (), *, rows: int | None = None,
    metric: str | None = None, mode: str | None = None, longest: int = 20,
) -> Table:  # fmt: skip
    """Return the table of trials: name, status, where, parameters (all that were chosen, by default), metrics.

    Columns in which no trial has anything are left out. At most `rows` trials, a fair number of each status; with
    `metric` and `mode` the terminated ones best first.
    """
    shown, hidden = chosen_trials(trials, rows, metric, mode)
    chosen = as_mapping(parameters) or as_mapping(sorted({key for trial in shown for key in trial.evaluated_params}))
    measured = as_mapping(metrics)
    header = ["Trial name", "status", "loc", *(shortened(name, longest) for name in chosen.values())]
    header += [shortened(name, longest) for name in measured.values()]
    cells = [
        [
            str(trial),
            str(trial.status),
            location_of(trial),
            *(shortened(parameter_of(trial, key), longest) for key in chosen),
            *(shortened(_measured(trial.last_result, key), longest) for key in measured),
        ]
        for trial in shown
    ]
    kept = [i for i in range(len(header)) if i < 2 or any(row[i] not in (None, "") for row in cells)]
    return Table([header[i] for i in kept], [[row[i] for i in kept] for row in cells], shown, hidden)


def _measured(result: Report, key: str) -> Any:
    value = look_up(result, key)
    return None if isinstance(value, dict) else value

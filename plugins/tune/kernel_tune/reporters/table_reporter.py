"""The base of reporters that display a table of trials."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from kernel_runs.progress.metrics import FIRST_METRICS, LAST_METRICS
from kernel_runs.progress.text import duration, text_table
from kernel_runs.reports import DEFAULT_METRIC
from kernel_tune.reporters.base import ProgressReporter
from kernel_tune.reporters.status import best_line, counts, errors_block, grouped_listing
from kernel_tune.reporters.trials_table import (
    Columns,
    Table,
    as_mapping,
    current_best,
    inferred_metrics,
    trials_table,
)
from kernel_tune.trial import Trial


class TableReporter(ProgressReporter):
    """Chooses what is displayed, and when. A subclass displays it.

    - `metric_columns`: keys of results, or a dict of key to heading; by default accuracy, loss and reward under their
      usual keys, up to `infer_limit` other numbers that trials report, time and iterations.
    - `parameter_columns`: keys of configurations; by default all values that were chosen.
    - `total_samples`: the number of trials, if the experiment does not know it.
    - `max_progress_rows`, `max_error_rows`: the largest numbers of rows of the tables, except at the end.
    - `max_column_length`: the largest number of characters of a cell.
    - `max_report_frequency`: the least number of seconds between two reports.
    - `print_intermediate_tables`: False displays the tables only at the end.
    - `metric`, `mode`: how the best trial is chosen, instead of the experiment's; `sort_by_metric` sorts terminated
      trials by the metric.
    - `clock`: returns seconds since 1970.
    """

    # Class attributes, for subclasses whose __init__ does not call this one.
    _metric_columns: Columns | None = None
    _added_metrics: Columns = {}  # noqa: RUF012 - never changed, only replaced
    _parameter_columns: Columns = ()
    _total_samples: int | None = None
    _max_progress_rows = 20
    _max_error_rows = 20
    _max_column_length = 20
    _max_report_frequency: float = 5
    _infer_limit = 3
    _print_intermediate_tables: bool | None = None
    _metric: str | None = None
    _mode: str | None = None
    _sort_by_metric = False
    _clock: Callable[[], float] = staticmethod(time.time)
    _start_time: float | None = None
    _last_report: float | None = None

    def __init__(self, *, metric_columns: Columns | None = None, parameter_columns: Columns | None = None,
                 total_samples: int | None = None, max_progress_rows: int = 20, max_error_rows: int = 20,
                 max_column_length: int = 20, max_report_frequency: float = 5, infer_limit: int = 3,
                 print_intermediate_tables: bool | None = None, metric: str | None = None, mode: str | None = None,
                 sort_by_metric: bool = False, clock: Callable[[], float] = time.time) -> None:  # fmt: skip
        if mode not in (None, "min", "max"):
            raise ValueError(f"mode is {mode!r}: it is 'min' or 'max'")
        self._metric_columns = metric_columns
        self._parameter_columns = parameter_columns or ()
        self._total_samples = total_samples
        self._max_progress_rows = max_progress_rows
        self._max_error_rows = max_error_rows
        self._max_column_length = max_column_length
        self._max_report_frequency = max_report_frequency
        self._infer_limit = infer_limit
        self._print_intermediate_tables = print_intermediate_tables
        self._metric = metric
        self._mode = mode
        self._sort_by_metric = sort_by_metric
        self._clock = clock

    def setup(self, start_time: float | None = None, total_samples: int | None = None, metric: str | None = None,
              mode: str | None = None, **info: Any) -> None:  # fmt: skip
        self._start_time = self._clock() if start_time is None else start_time
        self._total_samples = self._total_samples or total_samples
        self._metric = self._metric or metric
        self._mode = self._mode or mode
        if self._mode and not self._metric:
            self._metric = DEFAULT_METRIC

    def should_report(self, trials: Sequence[Trial], done: bool = False) -> bool:
        now = self._clock()
        if done or self._last_report is None or now - self._last_report >= self._max_report_frequency:
            self._last_report = now
            return True
        return False

    def add_metric_column(self, metric: str, representation: str | None = None) -> None:
        """Display another metric, under its own name or `representation`. Trials must report it."""
        if self._metric_columns is None:
            there = {**FIRST_METRICS, **LAST_METRICS, **as_mapping(self._added_metrics)}
            self._added_metrics = _added(there, as_mapping(self._added_metrics), metric, representation)
        else:
            self._metric_columns = _added(self._metric_columns, self._metric_columns, metric, representation)

    def add_parameter_column(self, parameter: str, representation: str | None = None) -> None:
        """Display a value of the configuration, under its own name or `representation`. May raise ValueError."""
        there = self._parameter_columns or {}
        self._parameter_columns = _added(there, there, parameter, representation)

    def table(self, trials: Sequence[Trial], done: bool = False) -> Table:
        """Return the table of trials."""
        by = self._metric if self._sort_by_metric and self._mode else None
        return trials_table(
            trials,
            self.metric_columns(trials),
            self._parameter_columns,
            rows=None if done else self._max_progress_rows,
            metric=by,
            mode=self._mode,
            longest=self._max_column_length,
        )

    def metric_columns(self, trials: Sequence[Trial]) -> Columns:
        """Return the metrics that are displayed."""
        if self._metric_columns is not None:
            return self._metric_columns
        found = inferred_metrics(trials, self._infer_limit)
        return {**FIRST_METRICS, **found, **as_mapping(self._added_metrics), **LAST_METRICS}

    def best(self, trials: Sequence[Trial]) -> tuple[Trial, str] | None:
        """Return the best trial so far and the metric that is compared; None if there is no metric to compare by."""
        metric = self._metric
        if metric is None and len(found := inferred_metrics(trials, 2)) == 1:
            metric = next(iter(found))
        trial = current_best(trials, metric, self._mode)
        return (trial, metric) if trial is not None and metric is not None else None

    def expected(self) -> int | None:
        """Return the number of trials that there will be, or None."""
        return self._total_samples or self.experiment.trials

    def running_for(self) -> float:
        """Return the time that the experiment has run, in seconds."""
        now = self._clock()
        return now - (now if self._start_time is None else self._start_time)

    def seconds_left(self, trials: Sequence[Trial]) -> float | None:
        """Return an estimate of the remaining seconds; None before a trial has ended, or if there is no end."""
        total, ended = self.expected(), sum(trial.has_ended for trial in trials)
        if not total or not ended:
            return None
        return self.running_for() / ended * max(0, total - ended)

    def progress_text(self, trials: Sequence[Trial], done: bool, *sys_info: str, grouped: bool = False) -> str:
        """Return the status block: time, `sys_info`, best trial, directory, counts, trials, errors."""
        now = datetime.fromtimestamp(self._clock())
        lines = [
            "== Status ==",
            f"Current time: {now:%Y-%m-%d %H:%M:%S} (running for {duration(self.running_for())})",
            *sys_info,
        ]
        best = self.best(trials)
        if best is not None:
            lines.append(best_line(best[0], best[1], self._parameter_columns))
        folders = dict.fromkeys(trial.local_dir for trial in trials if trial.local_dir)
        lines += [f"Result logdir: {folder}" for folder in folders or filter(None, [self.experiment.logdir])]
        lines.append(counts(trials, self.expected()))
        if trials and (done or self._print_intermediate_tables is not False):
            lines += grouped_listing(trials) if grouped else self._table_text(trials, done)
            lines += errors_block(trials, None if done else self._max_error_rows)
        return "\n".join(lines) + "\n"

    def _table_text(self, trials: Sequence[Trial], done: bool) -> list[str]:
        table = self.table(trials, done)
        return [text_table(table.header, table.rows), *filter(None, [table.hidden])]


def _added(there: Columns, columns: Columns, key: str, shown: str | None) -> Columns:
    """Return columns with one more. Raises ValueError if it exists, or if a list of keys can't have its heading."""
    if key in there:
        raise ValueError(f"column {key!r} is there already")
    if hasattr(columns, "items"):
        return {**as_mapping(columns), key: shown or key}
    if shown not in (None, key):
        raise ValueError(
            f"column {key!r} can't be shown as {shown!r}: the columns were given as a list, which has no place for "
            "other names; give a dict of key to name"
        )
    return [*columns, key]

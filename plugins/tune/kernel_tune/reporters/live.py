"""A live display of the experiment at the bottom of a terminal, or plain lines without a terminal."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from typing import Any, TextIO

from kernel_runs.progress.terminal import is_terminal
from kernel_runs.progress.text import cell, duration
from kernel_tune.reporters.live_view import view
from kernel_tune.reporters.table_reporter import TableReporter
from kernel_tune.reporters.trials_table import by_status, is_number, parameter_of
from kernel_tune.trial import Status, Trial

_SHARE = 8
"""Drawing takes at most one part in this many of the time: with more trials there are fewer updates a second."""
_OTHER_LINES = 14
"""The number of lines of the display that are not trials."""
_REMEMBERED = 16
"""The number of values in the sparkline of a trial's metric."""


class LiveReporter(TableReporter):
    """Displays bars, the best trial so far, the trials and the remaining time, several times a second.

    If `stream` (standard output by default) is not a terminal, or NO_COLOR is set, or TERM is `dumb`, it writes a line
    every few seconds instead. `width` in characters is by default the terminal's. The other arguments are those of
    `TableReporter`; `max_report_frequency` is in seconds, by default 0.2, or 5 for lines.
    """

    def __init__(self, *, stream: TextIO | None = None, width: int | None = None,
                 max_report_frequency: float | None = None, **options: Any) -> None:  # fmt: skip
        self._stream = stream or sys.stdout
        self.is_live = is_terminal(self._stream)
        often = 0.2 if self.is_live else 5.0
        super().__init__(
            max_report_frequency=often if max_report_frequency is None else max_report_frequency, **options
        )
        self._width = width
        self._live: Any = None
        self._curves: dict[Trial, deque[float]] = {}
        self._last_line = ""
        self._cost = 0.0

    def should_report(self, trials: Sequence[Trial], done: bool = False) -> bool:
        since = self._clock() - (self._last_report or 0.0)
        if not done and self._last_report is not None and since < _SHARE * self._cost:
            return False
        return super().should_report(trials, done)

    def report(self, trials: Sequence[Trial], done: bool, *sys_info: str) -> None:
        begun = self._clock()
        if self.is_live:
            self._draw(trials, done)
        else:
            self._print_line(trials, done)
        self._cost = self._clock() - begun

    def _draw(self, trials: Sequence[Trial], done: bool) -> None:
        self._remember(trials)
        if self._live is None:
            self._live = self._started()
        fitting = max(3, self._live.console.height - _OTHER_LINES)
        rows = min(fitting, self._max_progress_rows)
        self._live.update(view(self, trials, self._curves, rows), refresh=True)
        if done:
            self.close()

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def line(self, trials: Sequence[Trial]) -> str:
        """Return the state of the experiment as one line."""
        groups = by_status(trials)
        ended = sum(trial.has_ended for trial in trials)
        parts = [f"{ended}/{self.expected() or len(trials)} trials ended"]
        for status, word in ((Status.RUNNING, "running"), (Status.PAUSED, "paused"), (Status.ERROR, "failed")):
            if status in groups:
                parts.append(f"{len(groups[status])} {word}")
        left = self.seconds_left(trials)
        if left is not None and left > 0:
            parts.append(f"about {duration(left)} left")
        best = self.best(trials)
        text = f"[{duration(self.running_for())}] {', '.join(parts)}"
        if best is None:
            return text
        trial, metric = best
        chosen = ", ".join(f"{key}={cell(parameter_of(trial, key))}" for key in trial.evaluated_params)
        return f"{text}; best {metric}={cell(trial.value(metric))} by {trial}{f' ({chosen})' if chosen else ''}"

    def _print_line(self, trials: Sequence[Trial], done: bool) -> None:
        text = self.line(trials)
        after_time = text.partition("]")[2]
        if done or after_time != self._last_line:
            self._stream.write(text + "\n")
            self._stream.flush()
            self._last_line = after_time

    def _remember(self, trials: Sequence[Trial]) -> None:
        best = self.best(trials)
        metric = best[1] if best is not None else self._metric
        if metric is None:
            return
        for trial in trials:
            value = trial.value(metric)
            if is_number(value):
                curve = self._curves.setdefault(trial, deque(maxlen=_REMEMBERED))
                if not (trial.has_ended and curve and curve[-1] == value):
                    curve.append(float(value))

    def _started(self) -> Any:
        # here: rich takes tens of milliseconds to import
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self._stream, width=self._width)
        own = self._stream is sys.stdout
        live = Live(console=console, auto_refresh=False, redirect_stdout=own, redirect_stderr=own,
                    vertical_overflow="crop")  # fmt: skip
        live.start()
        return live

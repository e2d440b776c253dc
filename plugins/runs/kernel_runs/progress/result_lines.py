"""Lines that are printed as trials report and end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from kernel_runs.callbacks import Callback
from kernel_runs.loggers.pretty import pretty_print
from kernel_runs.progress.metrics import own_numbers
from kernel_runs.progress.text import cell
from kernel_runs.reports import DONE, TRAINING_ITERATION, Report, look_up
from kernel_runs.run import Run

_SHOWN = 4


class TrialProgressCallback(Callback):
    """Prints a line for each result (`verbose=2`) or the whole result (`verbose=3`), and nothing below that.

    At most one result of a trial is printed every `period` seconds, but always its last one, and its end or its error.
    `metric` comes first; `progress_metrics` are all metrics that a line shows. `stream` is standard output by default.
    """

    def __init__(self, metric: str | None = None, progress_metrics: Sequence[str] | None = None, verbose: int = 2,
                 period: float = 1.0, stream: TextIO | None = None,
                 clock: Callable[[], float] = time.monotonic) -> None:  # fmt: skip
        self._metric = metric
        self._shown = list(progress_metrics or ())
        self._verbose = verbose
        self._period = period
        self._stream = stream
        self._clock = clock
        self._printed: dict[Run, float] = {}
        self._pending: dict[Run, Report] = {}

    def on_trial_result(self, iteration: int, trials: Sequence[Run], trial: Run, result: Report,
                        **info: Any) -> None:  # fmt: skip
        if self._verbose < 2:
            return
        now = self._clock()
        if result.get(DONE) is True or now - self._printed.get(trial, -self._period) >= self._period:
            self._printed[trial] = now
            self._pending.pop(trial, None)
            self._print_result(trial, result)
        else:
            self._pending[trial] = result

    def on_trial_complete(self, iteration: int, trials: Sequence[Run], trial: Run, **info: Any) -> None:
        self._end(trial, "completed")

    def on_trial_error(self, iteration: int, trials: Sequence[Run], trial: Run, **info: Any) -> None:
        self._end(trial, f"failed: {trial.error_file}" if trial.error_file else "failed")

    def on_trial_recover(self, iteration: int, trials: Sequence[Run], trial: Run, **info: Any) -> None:
        if self._verbose >= 2:
            self._print(f"{trial} failed and is tried again")

    def _end(self, trial: Run, how: str) -> None:
        if self._verbose < 2:
            return
        last = self._pending.pop(trial, None)
        if last is not None:
            self._print_result(trial, last)
        self._printed.pop(trial, None)
        self._print(f"{trial} {how}")

    def _print_result(self, trial: Run, result: Report) -> None:
        if self._verbose >= 3:
            self._print(f"Result for {trial}:\n{_indented(pretty_print(result))}")
        else:
            self._print(f"{trial} {self._line(result)}")

    def _line(self, result: Report) -> str:
        keys = self._shown or own_numbers([result], _SHOWN)
        if self._metric:
            keys = [self._metric, *(key for key in keys if key != self._metric)]
        values = [f"{key}={cell(look_up(result, key))}" for key in keys if look_up(result, key) is not None]
        return ", ".join([f"iteration {result.get(TRAINING_ITERATION, '?')}", *values])

    def _print(self, text: str) -> None:
        stream = self._stream or sys.stdout
        stream.write(text + "\n")
        stream.flush()


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())

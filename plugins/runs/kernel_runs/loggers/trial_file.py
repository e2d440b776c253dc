"""Loggers that write one file for each trial, with a record for each result."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from kernel_runs.loggers.base import LoggerCallback
from kernel_runs.loggers.files import AppendedFiles, cut
from kernel_runs.reports import DONE, Report
from kernel_runs.run import Run


class TrialFile:
    """The file of a trial: its path, and the number of results that it has records of."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.records = 0
        self.is_done = False
        """Whether the last record says that the trial has ended."""


FileT = TypeVar("FileT", bound=TrialFile)


class TrialFileLogger(LoggerCallback, Generic[FileT]):
    """Base of loggers with one file a trial. A subclass defines how a record looks (`encode`) and is found (`end_of`).

    A batch of results is one write. When a trial starts, its file is cut to the results that the trial has reported
    according to the saved state of the experiment; later results are reported again. So an experiment that was killed
    and resumed leaves the same files as one that ran through.
    """

    hears_again = True
    says_done = False
    """Whether records have `done`. If the end was not known when the last result was written, it is written again."""

    def __init__(self) -> None:
        self._files = AppendedFiles()
        self._trials: dict[Run, FileT] = {}

    def file_of(self, trial: Run) -> FileT:
        """Return a new description of the trial's file."""
        raise NotImplementedError

    def encode(self, trial: Run, file: FileT, results: Sequence[Report]) -> bytes:
        """Return the records of some results. The first ones of a file include its header."""
        raise NotImplementedError

    def end_of(self, file: FileT, records: int) -> tuple[int, int]:
        """Return how many of the first `records` results the file on disk has, and the position where the last of them
        ends.

        Incomplete records do not count.
        """
        raise NotImplementedError

    def end(self, trial: Run, file: FileT, failed: bool) -> bytes:
        """Return the bytes that are appended when a trial has ended."""
        return b""

    def log_trial_start(self, trial: Run) -> None:
        file = self._trials.get(trial)
        if file is None or file.records != trial.results:
            self._begin(trial)

    def log_trial_result(self, iteration: int, trial: Run, result: Report) -> None:
        self.log_trial_results(trial, (result,))

    def log_trial_results(self, trial: Run, results: Sequence[Report]) -> None:
        """Append records of these results of a trial."""
        file = self._trials.get(trial)
        if file is None:
            file = self._begin(trial)
        self._files.append(file.path, self.encode(trial, file, results))
        file.records += len(results)
        file.is_done = bool(results[-1].get(DONE))

    def log_trial_end(self, trial: Run, failed: bool = False) -> None:
        if trial.results and trial not in self._trials:  # it was paused or pending since an earlier run
            self._begin(trial)
        file = self._trials.pop(trial, None)
        if file is not None:
            if self.says_done and not failed and file.records and not file.is_done and trial.last_result.get(DONE):
                self._write_last_again(trial, file)
            last = self.end(trial, file, failed)
            if last:
                self._files.append(file.path, last)
            self._files.close(file.path)

    def on_trial_results(self, iteration: int, trials: Sequence[Run], trial: Run, results: Sequence[Report],
                         **info: Any) -> None:  # fmt: skip
        self.log_trial_results(trial, results)

    def on_experiment_end(self, trials: Sequence[Run], **info: Any) -> None:
        self._files.close_all()

    def _write_last_again(self, trial: Run, file: FileT) -> None:
        """Replace the last record by one with `done`: the end of a function is known only when it has returned."""
        self._files.close(file.path)
        _, size = self.end_of(file, file.records - 1)
        cut(file.path, size)
        self._files.append(file.path, self.encode(trial, file, (trial.last_result,)))

    def _begin(self, trial: Run) -> FileT:
        file = self.file_of(trial)
        self._files.close(file.path)
        if os.path.exists(file.path):
            file.records, size = self.end_of(file, trial.results)
            cut(file.path, size)
        self._trials[trial] = file
        return file

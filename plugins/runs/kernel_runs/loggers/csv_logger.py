"""progress.csv: the results of a trial as a table."""

from __future__ import annotations

import csv
import io
import os
import warnings
from collections.abc import Sequence
from typing import Any

from kernel_runs.loggers.flat import flat_of
from kernel_runs.loggers.trial_file import TrialFile, TrialFileLogger
from kernel_runs.reports import SHOULD_CHECKPOINT, Report
from kernel_runs.run import Run

PROGRESS_FILE = "progress.csv"


class CSVFile(TrialFile):
    """A table with the columns of its first row. `left_out` are the columns of later rows that it lacks."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.columns: tuple[str, ...] = ()
        self.left_out: set[str] = set()


class _Lines:
    """Collects what a csv writer writes. One writer for all rows is faster than one for each."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.write = self.parts.append


class CSVLoggerCallback(TrialFileLogger[CSVFile]):
    """Writes `progress.csv`: nested dicts as columns like `a/b`, without the configuration.

    The columns are those of the first result. A metric that first comes later is missing there, and one warning says
    so; `result.json` has it.
    """

    says_done = True

    def __init__(self) -> None:
        super().__init__()
        self._lines = _Lines()
        self._writer = csv.writer(self._lines, lineterminator="\n")

    def file_of(self, trial: Run) -> CSVFile:
        return CSVFile(os.path.join(trial.logdir, PROGRESS_FILE))

    def encode(self, trial: Run, file: CSVFile, results: Sequence[Report]) -> bytes:
        parts, writer = self._lines.parts, self._writer
        parts.clear()
        for result in results:
            row = flat_of(result)
            if not file.columns:
                file.columns = tuple(row)
                writer.writerow(file.columns)
            if tuple(row) == file.columns:
                writer.writerow(row.values())
            else:
                writer.writerow([row.get(column) for column in file.columns])
                self._warn(trial, file, row)
        return "".join(parts).encode()

    def end_of(self, file: CSVFile, records: int) -> tuple[int, int]:
        lines = found = size = 0
        record = b""
        with open(file.path, "rb") as parts:
            for part in parts:
                record += part
                if record.count(b'"') % 2:  # a line break inside of quotes
                    continue
                if lines > records or not record.endswith(b"\n"):
                    break
                if not lines:
                    file.columns = tuple(next(csv.reader(io.StringIO(record.decode(), newline=""))))
                lines += 1
                size += len(record)
                record = b""
        found = max(0, lines - 1)
        if not found:
            file.columns, size = (), 0
        return found, size

    def _warn(self, trial: Run, file: CSVFile, row: dict[str, Any]) -> None:
        known = {*file.columns, *file.left_out, SHOULD_CHECKPOINT}  # the last is a request, and not a metric
        new = [column for column in row if column not in known]
        if new:
            file.left_out.update(new)
            warnings.warn(
                f"{trial} reports {', '.join(map(repr, new))}, which its first result did not have: {PROGRESS_FILE} "
                "has no such columns, result.json has the values. Report all keys from the first result on.",
                stacklevel=2,
            )

"""Status blocks for terminals and files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, TextIO

from kernel_tune.reporters.table_reporter import TableReporter
from kernel_tune.reporters.trials_table import Columns
from kernel_tune.trial import Trial


class CLIReporter(TableReporter):
    """Prints a status block every few seconds, and at the end.

    `stream` is standard output by default. `grouped` lists a few trials of each status instead of the table. The other
    arguments are those of `TableReporter`; the first four may be positional.
    """

    _stream: TextIO | None = None
    _grouped = False

    def __init__(self, metric_columns: Columns | None = None, max_progress_rows: int = 20, max_error_rows: int = 20,
                 max_report_frequency: float = 5, *, stream: TextIO | None = None, grouped: bool = False,
                 **options: Any) -> None:  # fmt: skip
        super().__init__(
            metric_columns=metric_columns, max_progress_rows=max_progress_rows, max_error_rows=max_error_rows,
            max_report_frequency=max_report_frequency, **options,
        )  # fmt: skip
        self._stream = stream
        self._grouped = grouped

    def report(self, trials: Sequence[Trial], done: bool, *sys_info: str) -> None:
        stream = self._stream or sys.stdout
        stream.write(self.progress_text(trials, done, *sys_info, grouped=self._grouped) + "\n")
        stream.flush()

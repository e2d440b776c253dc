"""The choice of a reporter."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from kernel_runs.progress.terminal import is_terminal
from kernel_tune.reporters.cli import CLIReporter
from kernel_tune.reporters.live import LiveReporter
from kernel_tune.reporters.notebook import JupyterNotebookReporter, in_notebook
from kernel_tune.reporters.table_reporter import TableReporter


def detect_reporter(stream: TextIO | None = None, **options: Any) -> TableReporter:
    """Return a reporter: for a notebook in one, a live display on a terminal, else one that prints status blocks.

    `options` are arguments of `TableReporter`.
    """
    if in_notebook():
        return JupyterNotebookReporter(overwrite=True, **options)
    if is_terminal(stream or sys.stdout):
        return LiveReporter(stream=stream, **options)
    return CLIReporter(stream=stream, **options)

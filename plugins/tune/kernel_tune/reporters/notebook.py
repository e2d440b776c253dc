"""A display for notebooks: one output that is updated."""

from __future__ import annotations

import html
import sys
from collections.abc import Sequence
from typing import Any

from kernel_runs.optional import needed
from kernel_runs.progress.text import duration, html_table
from kernel_tune.reporters.status import best_line, counts, errors_block
from kernel_tune.reporters.table_reporter import TableReporter
from kernel_tune.reporters.trials_table import Columns
from kernel_tune.trial import Trial

_STYLE = (
    "<style>.kernel-tune{font-family:system-ui,sans-serif;font-size:13px}"
    ".kernel-tune table{border-collapse:collapse;margin:.5em 0}"
    ".kernel-tune th,.kernel-tune td{padding:.2em .7em;text-align:right;border-bottom:1px solid #ddd}"
    ".kernel-tune th:first-child,.kernel-tune td:first-child{text-align:left}</style>"
)


class JupyterNotebookReporter(TableReporter):
    """Displays the experiment in the output of a cell, in place. `overwrite` clears earlier output of the cell.

    The other arguments are those of `TableReporter`; the next four may be positional. It needs IPython.
    """

    _overwrite = True
    _handle: Any = None

    def __init__(self, overwrite: bool = True, metric_columns: Columns | None = None, max_progress_rows: int = 20,
                 max_error_rows: int = 20, max_report_frequency: float = 5, **options: Any) -> None:  # fmt: skip
        super().__init__(
            metric_columns=metric_columns, max_progress_rows=max_progress_rows, max_error_rows=max_error_rows,
            max_report_frequency=max_report_frequency, **options,
        )  # fmt: skip
        self._overwrite = overwrite

    def report(self, trials: Sequence[Trial], done: bool, *sys_info: str) -> None:
        ipython = needed("IPython.display", type(self).__name__, "ipython")
        page = ipython.HTML(self.page(trials, done, *sys_info))
        if self._handle is None:
            if self._overwrite:
                ipython.clear_output(wait=True)
            self._handle = ipython.display(page, display_id=True)
        else:
            self._handle.update(page)

    def page(self, trials: Sequence[Trial], done: bool, *sys_info: str) -> str:
        """Return the display as HTML."""
        lines = [f"Running for {duration(self.running_for())}", *sys_info]
        best = self.best(trials)
        if best is not None:
            lines.append(best_line(best[0], best[1], self._parameter_columns))
        lines += [f"Result logdir: {folder}" for folder in dict.fromkeys(trial.local_dir for trial in trials)]
        lines.append(counts(trials, self.expected()))
        text = "<br>".join(html.escape(line).replace("\n", "<br>") for line in lines)
        table = self.table(trials, done)
        errors = "\n".join(errors_block(trials, None if done else self._max_error_rows))
        parts = [text, html_table(table.header, table.rows) if trials else "", html.escape(table.hidden)]
        if errors:
            parts.append(f"<pre>{html.escape(errors)}</pre>")
        return f'{_STYLE}<div class="kernel-tune">{"".join(parts)}</div>'


def in_notebook() -> bool:
    """Return whether this program runs in a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    return type(shell).__name__ in ("ZMQInteractiveShell", "Shell")  # Jupyter, Colab

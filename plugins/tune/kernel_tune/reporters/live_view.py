"""The look of the live display."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernel_runs.progress.terminal import sparkline
from kernel_runs.progress.text import cell, duration
from kernel_tune.reporters.table_reporter import TableReporter
from kernel_tune.reporters.trials_table import by_status, parameter_of, trials_table
from kernel_tune.trial import Status, Trial

_STYLES = {
    Status.RUNNING: ("●", "cyan"),
    Status.PAUSED: ("◐", "yellow"),
    Status.PENDING: ("○", "bright_black"),
    Status.TERMINATED: ("✔", "green"),
    Status.ERROR: ("✘", "red"),
}
Curves = Mapping[Trial, Sequence[float]]


def view(reporter: TableReporter, trials: Sequence[Trial], curves: Curves, rows: int = 20) -> Any:
    """Return the display, with at most `rows` trials, as an object that rich can draw."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    info = reporter.experiment
    parts = [_bar(reporter, trials), _best(reporter, trials)]
    facts = [fact for fact in (info.resources() if info.total else "", info.scheduler) if fact]
    for fact in facts:
        parts.append(Text(fact, style="bright_black", overflow="ellipsis", no_wrap="\n" not in fact))
    title = Text(f" {info.name or 'experiment'} ", style="bold")
    panel = Panel(Group(*(part for part in parts if part is not None)), title=title, title_align="left",
                  subtitle=Text(f" {info.logdir} ", style="bright_black") if info.logdir else None,
                  subtitle_align="left", border_style="cyan", padding=(0, 1))  # fmt: skip
    return Group(panel, *_tables(reporter, trials, curves, rows))


def _bar(reporter: TableReporter, trials: Sequence[Trial]) -> Any:
    """Return the bar of ended trials, with counts and times."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    groups = by_status(trials)
    counted = {status: len(group) for status, group in groups.items()}
    ended = counted.get(Status.TERMINATED, 0) + counted.get(Status.ERROR, 0)
    total = max(reporter.expected() or len(trials), len(trials), 1)
    shares = [(counted.get(status, 0), _STYLES[status][1]) for status in
              (Status.TERMINATED, Status.ERROR, Status.RUNNING, Status.PAUSED)]  # fmt: skip
    left = reporter.seconds_left(trials)
    times = f"{duration(reporter.running_for())}" + (f"  about {duration(left)} left" if left else "")
    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(ratio=1)
    grid.add_column(no_wrap=True, justify="right")
    grid.add_row(_SharesBar(shares, total), Text(f"{ended}/{total}  {times}", style="bold"))
    words = Text()
    for status, count in counted.items():
        mark, colour = _STYLES[status]
        words.append(f"{mark} {count} {str(status).lower()}   ", style=colour)
    return Group(grid, words)


class _SharesBar:
    """Draws a bar with one colour for each kind of trial."""

    def __init__(self, shares: Sequence[tuple[int, str]], total: int) -> None:
        self._shares, self._total = shares, total

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from rich.segment import Segment
        from rich.style import Style

        width, drawn, before = options.max_width, 0, 0
        for count, colour in self._shares:
            before += count
            until = round(width * before / self._total)
            yield Segment("━" * (until - drawn), Style(color=colour))
            drawn = until
        yield Segment("━" * (width - drawn), Style(color="bright_black", dim=True))


def _best(reporter: TableReporter, trials: Sequence[Trial]) -> Any:
    from rich.text import Text

    best = reporter.best(trials)
    if best is None:
        return None
    trial, metric = best
    line = Text("★ best ", style="bold yellow", overflow="ellipsis", no_wrap=True)
    line.append(f"{metric} {cell(trial.value(metric))}", style="bold white")
    line.append(f"  {trial}  ", style="white")
    chosen = [f"{key}={cell(parameter_of(trial, key))}" for key in trial.evaluated_params]
    line.append(", ".join(chosen), style="cyan")
    return line


def _tables(reporter: TableReporter, trials: Sequence[Trial], curves: Curves, rows: int) -> list[Any]:
    """Return the table of trials, a line about trials that it does not show, and lines about failed ones."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    if not trials:
        return []
    by = reporter.best(trials)
    shown = trials_table(
        trials, reporter.metric_columns(trials), reporter._parameter_columns, rows=rows,
        metric=by[1] if by else None, mode=reporter._mode, longest=reporter._max_column_length,
    )  # fmt: skip
    kept = [i for i, name in enumerate(shown.header) if name not in ("status", "loc")]
    table = Table(box=box.SIMPLE_HEAD, expand=True, header_style="bold", pad_edge=False, padding=(0, 1))
    table.add_column("", width=1)
    for i in kept:
        numeric = i > 0 and all(not isinstance(row[i], str) for row in shown.rows)
        name = shown.header[i]
        table.add_column(name, justify="right" if numeric else "left", no_wrap=True, overflow="ellipsis",
                         style="cyan" if name in _chosen(trials) else None)  # fmt: skip
    table.add_column("", no_wrap=True, style="bright_black")
    for trial, row in zip(shown.trials, shown.rows, strict=True):
        mark, colour = _STYLES[trial.status]
        best = by is not None and trial is by[0]
        table.add_row(Text(mark, style=colour), *(cell(row[i]) for i in kept), sparkline(curves.get(trial, ())),
                      style="bold" if best else None)  # fmt: skip
    parts: list[Any] = [table]
    if shown.hidden:
        parts.append(Text(shown.hidden, style="bright_black"))
    for trial in [trial for trial in trials if trial.status is Status.ERROR][: reporter._max_error_rows]:
        said = trial.error_file or trial.error_message.strip().rpartition("\n")[2]
        parts.append(Text(f"✘ {trial}  {said}", style="red", overflow="ellipsis", no_wrap=True))
    return parts


def _chosen(trials: Sequence[Trial]) -> set[str]:
    return {key for trial in trials for key in trial.evaluated_params}

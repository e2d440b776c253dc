"""What `kernel simulate` prints: a column for each scheduler, who waited how long, and what was never placed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from kernel.cli import display

if TYPE_CHECKING:
    from kernel_simulation import Load, Report


def show(load: Load, reports: Sequence[Report]) -> None:
    """Print the reports of one load side by side."""
    first = reports[0]
    pieces = sum(work.count for work in load.work)
    click.echo(f"{load.name}: {first.nodes:,} nodes, {pieces:,} pieces of work, seed {first.seed}\n")
    names = [report.scheduler for report in reports]
    right = range(1, len(names) + 1)
    rows = [(label, *(figure(report) for report in reports)) for label, figure in _figures(first)]
    display.table(("", *names), rows, right=right, cut=False)
    click.echo()
    _show_waiting(reports)
    _show_left(reports)


def _figures(first: Report) -> list[tuple[str, Callable[[Report], str]]]:
    """Return the label and the text of each line of the first table."""

    def share_of(name: str) -> Callable[[Report], str]:
        return lambda report: f"{report.used[name]:.1%} / {report.held[name]:.1%}"

    asked = {name for name in first.held if first.held[name]}
    return [
        ("makespan", lambda report: _seconds(report.makespan) + ("" if not report.left else " (unfinished)")),
        *((f"{name} used / held", share_of(name)) for name in sorted(asked)),
        ("done", lambda report: f"{sum(work.done for work in report.work):,}"),
        ("failed", lambda report: f"{sum(work.failed for work in report.work):,}"),
        ("never placed or ended", lambda report: f"{report.left:,}"),
        ("leases", lambda report: f"{sum(work.leases for work in report.work):,}"),
        ("reclaims", lambda report: f"{report.reclaims:,}"),
        ("preemptions", lambda report: f"{report.preemptions:,}"),
        ("runs in vain", lambda report: f"{sum(work.lost_runs for work in report.work):,}"),
        ("nodes lost", lambda report: f"{report.nodes_lost:,}"),
        *(_scaling_figures() if first.scaling is not None else ()),
        ("decisions", lambda report: f"{report.decisions.count:,}"),
        ("decisions a second", lambda report: f"{report.decisions.per_second:,.0f}"),
        ("a decision, median", lambda report: f"{report.decisions.microseconds.median:,.1f} us"),
        ("a decision, p99", lambda report: f"{report.decisions.microseconds.p99:,.1f} us"),
        ("deciding took", lambda report: display.duration(report.decisions.seconds)),
        ("simulating took", lambda report: display.duration(report.real_seconds)),
    ]


def _scaling_figures() -> list[tuple[str, Callable[[Report], str]]]:
    """Return the lines that an autoscaler adds."""

    def line(label: str, text: Callable[[Mapping[str, Any]], str]) -> tuple[str, Callable[[Report], str]]:
        return label, lambda report: text(report.scaling or {})

    def over_bound(said: Mapping[str, Any]) -> str:
        return f"{said['cost'] / said['bound']:.2f}" if said["bound"] else "no bound"

    return [
        line("node-hours", lambda said: f"{said['node_hours']:,.2f}"),
        line("cost / idle", lambda said: f"{said['cost']:,.2f} / {said['idle_cost']:,.2f}"),
        line("cost / bound", over_bound),
        line("waiting, median", lambda said: _seconds(said["waiting"]["median"])),
        line("waiting, p99", lambda said: _seconds(said["waiting"]["p99"])),
        line("machines made", lambda said: f"{said['launched']:,}"),
        line("... for each piece", lambda said: f"{said['launched_per_piece']:.3f}"),
        line("busy nodes ended", lambda said: f"{said['busy_ended']:,}"),
        line("flaps", lambda said: f"{said['flaps']:,}"),
    ]


def _show_waiting(reports: Sequence[Report]) -> None:
    rows = []
    for number in range(len(reports[0].work)):
        for report in reports:
            work = report.work[number]
            waits = (work.waiting.mean, work.waiting.median, work.waiting.p95, work.waiting.max)
            label = f"{work.name} ({work.form})" if report is reports[0] else ""
            rows.append((label, report.scheduler, f"{work.done:,} of {work.count:,}", *map(_seconds, waits)))
    display.table(("WAITING", "SCHEDULER", "DONE", "MEAN", "MEDIAN", "P95", "MAX"), rows, right=range(2, 7), cut=False)


def _show_left(reports: Sequence[Report]) -> None:
    for report in reports:
        for work in report.work:
            if work.left:
                reason = work.reason or "it runs still, or has not come yet"
                text = f"{report.scheduler} left {work.left:,} of {work.count:,} {work.name}: {reason}"
                click.echo()
                click.echo(click.wrap_text(text, display.terminal_width(), subsequent_indent="  "))


def _seconds(seconds: float) -> str:
    """Return simulated seconds, with as many digits as matter."""
    return f"{seconds:,.3f} s" if seconds < 10 else f"{seconds:,.1f} s"

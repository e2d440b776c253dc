"""The look of `kernel serve top`: tables for a terminal, otherwise plain lines."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from kernel_serve.cli.tables import table
from kernel_serve.cli.top_numbers import ApplicationRow, DeploymentRow, ReplicaRow, Traffic, View

_GOOD, _BAD = ("RUNNING", "HEALTHY"), ("DEPLOY_FAILED", "UNHEALTHY")
_BAR = 12
_NUMBERS = range(3, 8)
"""The columns that are aligned at their right end."""
_HEADS = ("NAME", "STATE", "REPLICAS", "REQ/S", "P50 MS", "P99 MS", "ERR/S", "QUEUED", "LOAD", "MEMORY")


def rendered(view: View, when: str) -> Any:
    """Return the view as a renderable of rich."""
    shown: list[Any] = [_summary(view, when), Text("")]
    if not view.applications:
        shown.append(Text("no application runs: deploy one with serve.run(...) or `kernel serve deploy`", style="dim"))
    rows = [_cells(row) for application in view.applications for row in _rows(application)]
    widths = [max(map(len, column)) for column in zip(_HEADS, *rows, strict=True)]
    for application in view.applications:
        shown.append(_table(application, widths))
        if application.message:
            shown.append(Text(f"  {application.message}", style="red" if application.status in _BAD else "yellow"))
    return Group(*shown)


def plain(view: View, when: str) -> str:
    """Return the view as lines of text."""
    lines = [_summary(view, when).plain]
    for application in view.applications:
        lines.append(f"\n{application.name}  {application.status}  {application.route}  {application.message}".rstrip())
        lines.append(table(_HEADS, [_cells(row) for row in _rows(application)], right=_NUMBERS))
    return "\n".join(lines)


def _summary(view: View, when: str) -> Text:
    text = Text()
    text.append(f"serve {when}", style="bold")
    text.append(f"  {_rate(view.traffic.rate)} req/s", style="bold cyan")
    text.append(f"  p50 {_ms(view.traffic.p50)} ms  p99 {_ms(view.traffic.p99)} ms")
    text.append(f"  {_rate(view.traffic.errors)} errors/s", style="bold red" if view.traffic.errors else "")
    text.append(f"  {view.ongoing} ongoing  {_memory(view.memory)} in all")
    for address, status in view.proxies:
        text.append(f"\nproxy {address} ")
        text.append(status, style=_style(status))
    if view.silent:
        text.append(f"\nno answer from: {', '.join(view.silent)}", style="yellow")
    return text


def _table(application: ApplicationRow, widths: list[int]) -> Table:
    title = Text.assemble(
        ("application ", "dim"), (application.name, "bold"), "  ",
        (application.status, _style(application.status)), ("  at ", "dim"), application.route,
    )  # fmt: skip
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, head in enumerate(_HEADS):
        side = "right" if place in _NUMBERS else "left"
        shown.add_column(head, justify=side, no_wrap=True, min_width=widths[place])  # type: ignore[arg-type]
    for row in _rows(application):
        cells: list[Any] = list(_cells(row))
        cells[1] = Text(cells[1], style=_style(cells[1]))
        if row.traffic.errors:
            cells[6] = Text(cells[6], style="bold red")
        if isinstance(row, ReplicaRow):
            cells[8] = Text(cells[8], style="red" if row.ongoing >= row.limit > 0 else "green")
        elif row.queued:
            cells[7] = Text(cells[7], style="bold yellow")
        shown.add_row(*cells, style="bold" if isinstance(row, DeploymentRow) else "")
        if isinstance(row, DeploymentRow) and row.message:
            shown.add_row(Text(f"  {row.message}", style="yellow"))
    return shown


def _rows(application: ApplicationRow) -> list[DeploymentRow | ReplicaRow]:
    rows: list[DeploymentRow | ReplicaRow] = []
    for deployment in application.deployments:
        rows += [deployment, *deployment.replicas]
    return rows


def _cells(row: DeploymentRow | ReplicaRow) -> tuple[str, ...]:
    numbers = _numbers(row.traffic)
    if isinstance(row, ReplicaRow):
        state = f"{row.state} {row.note}".strip()
        return (
            f"  {row.id.rpartition('#')[2]}",
            state,
            "",
            *numbers,
            "",
            bar(row.ongoing, row.limit),
            _memory(row.memory),
        )
    running = row.states.get("RUNNING", 0)
    others = [f"{number} {state.lower()}" for state, number in row.states.items() if state != "RUNNING"]
    replicas = ", ".join((f"{running}/{row.target}", *others))
    load = f"{row.ongoing} ongoing" + (f", {row.total_errors:,} errors" if row.total_errors else "")
    memory = sum(each.memory for each in row.replicas)
    return row.name, row.status, replicas, *numbers, str(row.queued), load, _memory(memory)


def _numbers(traffic: Traffic) -> tuple[str, ...]:
    return _rate(traffic.rate), _ms(traffic.p50), _ms(traffic.p99), _rate(traffic.errors)


def bar(ongoing: int, limit: int) -> str:
    """Return how full a replica is, as `####-------- 4/12`."""
    full = min(round(_BAR * ongoing / limit), _BAR) if limit else 0
    return f"{'#' * full}{'-' * (_BAR - full)} {ongoing}/{limit}"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or not value else f"{value:.1f}"


def _ms(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _memory(value: float) -> str:
    return f"{value / 1e9:.1f} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"


def _style(state: str) -> str:
    word = state.split(" ", 1)[0]
    return "green" if word in _GOOD else "bold red" if word in _BAD else "yellow"

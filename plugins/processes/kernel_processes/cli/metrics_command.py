"""`kernel metrics`: print the metrics of all processes of a session in Prometheus's text format."""

from __future__ import annotations

import click

from kernel.cli import display
from kernel.commands import Refusal, nearest
from kernel_processes.cli.client import address_option, ask_session, json_option
from kernel_spec.metric_text import exposition
from kernel_spec.metrics import MetricsSnapshot, merged, rows


@click.command("metrics")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@address_option
@json_option
def metrics(names: tuple[str, ...], address: str | None, as_json: bool) -> None:
    """Print the metrics of a session, or only those called NAME, in Prometheus's text format.

    \b
    Examples:
      kernel metrics
      kernel metrics kernel_workers orders_total
      kernel metrics --json
    """
    _, found = ask_session(address, "metrics")
    families, _ = merged(found)
    known = [family.name for family in families]
    for name in names:
        if name not in known:
            raise Refusal(f"there is no metric {name!r} in this session{nearest(name, known)}")
    if as_json:
        display.echo_json(rows(family for family in families if not names or family.name in names))
        return
    chosen = [
        MetricsSnapshot(snapshot.origin, [one for one in snapshot.families if not names or one.name in names])
        for snapshot in found
    ]
    click.echo(exposition(chosen), nl=False)

"""The nodes of a session, as `kernel status` shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import click

from kernel.cli import display
from kernel_processes.cli.drain_command import place_of
from kernel_spec.labels import NODE_ID_LABEL

_HIDDEN = ("memory", "object_store_memory")
_DEAD_SHOWN = 5
_STATES = ("ALIVE", "DRAINING", "DRAINED", "DEAD")
_COLOURS = {"ALIVE": "green", "DRAINING": "yellow", "DEAD": "red"}


def show_nodes(rows: Sequence[Mapping[str, Any]], own: str) -> None:
    """Show a line per node; `own` is the id of the one that was asked."""
    counted = Counter(row["State"] for row in rows)
    shown = [f"{counted[state]} {state.lower()}" for state in _STATES if counted[state]]
    click.echo(f"\n{display.heading('NODES')}  {', '.join(shown)}")
    lines = [
        (
            row["NodeID"][:8] + ("*" if row["NodeID"] == own and len(rows) > 1 else ""),
            click.style(row["State"], fg=_COLOURS.get(row["State"])),
            place_of(row),
            _used(row),
            ", ".join(f"{name}={text}" for name, text in sorted(row["Labels"].items()) if name != NODE_ID_LABEL) or "-",
            row["Version"],
            f"{row['HeardSecondsAgo']:.1f} s ago",
        )
        for row in rows
        if row["Alive"]
    ]
    display.table(("NODE", "STATE", "ADDRESS", "USED", "LABELS", "VERSION", "LAST HEARTBEAT"), lines, indent=2)
    gone = [row for row in rows if not row["Alive"]]
    for row in gone[-_DEAD_SHOWN:]:
        where = f" ({place_of(row)})" if row["NodeManagerAddress"] else ""
        state = click.style(row["State"], fg=_COLOURS.get(row["State"]))
        click.echo(f"  {row['NodeID'][:8]}{where}  {state}: {row['Cause']}")
    if len(gone) > _DEAD_SHOWN:
        click.echo(f"  {display.ellipsis()} and {len(gone) - _DEAD_SHOWN} more that are gone (--json lists them)")


def _used(row: Mapping[str, Any]) -> str:
    """Return `CPU 1/4, disk 0/2`."""
    total = row["Resources"]
    names = sorted(
        (name for name in total if name not in _HIDDEN and not name.startswith("node:")),
        key=lambda name: (name != "CPU", name != "GPU", name),
    )
    shown = display.quantity
    return ", ".join(f"{name} {shown(total[name] - row['Available'][name])}/{shown(total[name])}" for name in names)

"""`kernel list`, `kernel get` and `kernel summary`: show what a session has, in rows that can be filtered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from kernel.api.listing_filters import parse_filter
from kernel.api.listings import KINDS, row_of, rows_of, summary_of
from kernel.cli import display
from kernel.commands import Refusal
from kernel_processes.cli.client import SessionClient, address_option, find_head, json_option

_KINDS = click.Choice([*KINDS, *(kind.replace("-", "_") for kind in KINDS if "-" in kind)])
_SUMMARIES = click.Choice([kind for kind, known in KINDS.items() if known.group_by])


@click.command("list")
@click.argument("kind", type=_KINDS, metavar="KIND")
@click.option("-f", "--filter", "filters", multiple=True, metavar="COLUMN=VALUE", help="Only these rows (or !=VALUE).")
@click.option("--limit", type=click.IntRange(min=0), default=100, show_default=True, help="Maximum number of rows.")
@click.option("--detail", is_flag=True, help="Show all columns, each on a line of its own.")
@address_option
@json_option
def list_(kind: str, filters: Sequence[str], limit: int, detail: bool, address: str | None, as_json: bool) -> None:
    """List the actors, tasks, nodes, or other things of a session.

    KIND is actors, tasks, nodes, workers, jobs, objects or placement-groups. A row must match all filters.

    \b
    Examples:
      kernel list tasks -f state=FAILED --detail
      kernel list actors -f state!=DEAD -f class_name=Counter
      kernel list nodes --json
    """
    wanted = [parse_filter(text) for text in filters]
    with SessionClient(find_head(address)) as client:
        rows = rows_of(client.ask, kind, wanted, limit, detail or as_json)
    if as_json:
        display.echo_json(rows)
    elif detail:
        for row in rows:
            _show_one(row)
    elif rows:
        heads = [name.upper() for name in rows[0]]
        display.table(heads, [[_cell(value) for value in row.values()] for row in rows], cut=False)
    else:
        click.echo(display.dim(f"no {kind}{' with ' + ', '.join(filters) if filters else ''}"))


@click.command("get")
@click.argument("kind", type=_KINDS, metavar="KIND")
@click.argument("id", metavar="ID")
@address_option
@json_option
def get(kind: str, id: str, address: str | None, as_json: bool) -> None:
    """Show all details of one actor, task, node, or other thing.

    KIND is as for `kernel list`, ID the first column there.

    \b
    Examples:
      kernel get actors 5f0c91d2a3b4e5f60100000000000000
      kernel get nodes 5f0c91d2a3b4e5f6 --json
    """
    with SessionClient(find_head(address)) as client:
        row = row_of(client.ask, kind, id)
    if row is None:
        raise Refusal(f"there is none of the {kind} with the id {id!r}; see: kernel list {kind}")
    if as_json:
        display.echo_json(row)
    else:
        _show_one(row)


@click.command("summary")
@click.argument("kind", type=_SUMMARIES, metavar="KIND")
@address_option
@json_option
def summary(kind: str, address: str | None, as_json: bool) -> None:
    """Count tasks by name, actors by class, or objects by the line that made them, in each state.

    \b
    Examples:
      kernel summary tasks
      kernel summary actors --json
    """
    with SessionClient(find_head(address)) as client:
        found = summary_of(client.ask, kind)
    if as_json:
        display.echo_json(found)
    elif found:
        heads = [KINDS[kind].group_by.upper(), "STATES"]
        rows = [
            [name, ", ".join(f"{state}: {count}" for state, count in sorted(row["state_counts"].items()))]
            for name, row in found.items()
        ]
        display.table(heads, rows, cut=False)
    else:
        click.echo(display.dim(f"no {kind}"))


def _show_one(row: dict[str, Any]) -> None:
    width = max(map(len, row))
    for name, value in row.items():
        click.echo(f"{name:{width}}  {_cell(value)}".rstrip())
    click.echo()


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return json.dumps(value) if isinstance(value, (dict, list, bool)) else str(value)

"""`kernel memory`: show which process holds which object, its size, kind of reference, and the line that made it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from kernel.cli import display
from kernel_processes.cli.client import address_option, ask_session, json_option
from kernel_processes.cli.status_command import show_memory, show_silent_nodes

_WIDE = 150
"""Minimum width in columns of a terminal for an object and its call site on one line."""
_HEADS = ("OBJECT ID", "SIZE", "REFERENCE TYPE", "STATE", "CALL SITE")

Row = dict[str, Any]


@click.command("memory")
@address_option
@click.option("--sort", type=click.Choice(["size", "id", "site"]), default="size", show_default=True, help="Order.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Objects per process.")
@json_option
def memory(address: str | None, sort: str, limit: int, as_json: bool) -> None:
    """Show the objects in scope, process by process: id, size in bytes, kind of reference, state and call site.

    \b
    Kinds of reference:
      LOCAL_REFERENCE        a Python reference in that process
      PINNED_IN_MEMORY       a value in the object store's memory is in use
      USED_BY_PENDING_TASK   an argument of a task that has not finished
      CAPTURED_IN_OBJECT     inside of another object, or held by another process

    An object whose state is overflow lies in a mapped file, because the store had no room for it.

    \b
    Examples:
      kernel memory
      kernel memory --limit 10
      kernel memory --sort site
      kernel memory --json
    """
    _, found = ask_session(address, "memory", limit)
    known = _known_elsewhere(found)
    processes = [_described(process, known, sort) for process in found["processes"]]
    strays = _unreferenced(found)
    if as_json:
        totals = {"unreferenced": strays, "store": found["usage"], "memory": found["memory"]}
        silent = {name: found[name] for name in ("silent", "silent_nodes")}
        stored = [_stored_row(row) for row in found["stored"]]
        display.echo_json({"processes": processes, "stored": stored, **totals, **silent})
        return
    _show_store(found["usage"])
    for process in processes:
        if process["count"]:
            _show_process(process)
    without = sum(not process["count"] for process in processes)
    if without:
        text = f"; {display.count(without, 'other process')} without objects"
        click.echo("\n" + display.dim(text))
    if strays:
        size = sum(row["size"] for row in strays)
        click.echo(
            f"\n{display.heading('; in the store, referred to by no process that answered')}  {_sum(len(strays), size)}"
        )
        _show_rows(strays[:limit])
    show_memory(found["memory"])
    show_silent_nodes(found["silent_nodes"], "its store and its memory are")
    for pid in found["silent"]:
        click.echo(f"process {pid} did not answer within 2 s; its references are missing here", err=True)


def _known_elsewhere(found: Mapping[str, Any]) -> dict[bytes, tuple[int, str]]:
    """Return size and state of each object as its owner and the store know them; a borrower may know neither.

    The store was asked first: an object that it reported as being written may be ready by the owner's later report.
    """
    known = {
        row[0]: (row[1], row[2]) for process in found["processes"] for row in process["rows"] if row[1] is not None
    }
    stored = {id: (size, state) for id, _, size, state, *_ in found["stored"]}
    return known | {id: seen for id, seen in stored.items() if seen[1] != "writing" or id not in known}


def _described(process: Mapping[str, Any], known: Mapping[bytes, tuple[int, str]], sort: str) -> Row:
    rows = []
    for id, size, state, kind, site, local, borrowers in process["rows"]:
        size, state = known.get(id, (size, state))
        rows.append(
            {
                "object_id": id.hex(),
                "size": size,
                "reference": kind,
                "state": state,
                "site": site,
                "local_references": local,
                "borrowers": [one.hex() for one in borrowers],
            }
        )
    keys = {
        "size": lambda row: -(row["size"] or 0),
        "id": lambda row: row["object_id"],
        "site": lambda row: row["site"],
    }
    rows.sort(key=keys[sort])
    about = {key: process[key] for key in ("role", "pid", "name", "held", "count", "bytes")}
    return {**about, "process": process["process"].hex(), "objects": rows}


def _unreferenced(found: Mapping[str, Any]) -> list[Row]:
    """Return the stored objects without a listed reference; an empty list where the lists were cut short."""
    if any(process["count"] > len(process["rows"]) for process in found["processes"]):
        return []
    known = {row[0] for process in found["processes"] for row in process["rows"]}
    rows = [_stored_row(row) for row in found["stored"] if row[0] not in known]
    return sorted(rows, key=lambda row: -row["size"])


def _stored_row(row: Sequence[Any]) -> Row:
    id, owner, size, state, pins, weak = row
    return {
        "object_id": id.hex(),
        "size": size,
        "reference": "PINNED_IN_MEMORY" if pins else "-",
        "state": state,
        "weak": weak,
        "site": f"owner {owner.hex()}",
        "pins": {process.hex(): count for process, count in pins.items()},
    }


def _show_store(usage: Mapping[str, int]) -> None:
    overflow = ""
    if usage["overflow_objects"]:
        overflow = (
            f", {usage['overflow']:,} in {display.count(usage['overflow_objects'], 'file')} for lack of room (overflow)"
        )
    click.echo(
        f"{display.heading('object store')}  {usage['used']:,} of {usage['capacity']:,} bytes in "
        f"{display.count(usage['objects'], 'object')}; {usage['pinned']:,} in use, {usage['spilled']:,} spilled"
        f"{overflow}"
    )


def _show_process(process: Row) -> None:
    name = f" ({process['name']})" if process["name"] else ""
    head = display.heading(f"; {process['role']} pid={process['pid']}{name}")
    click.echo(f"\n{head}  {_sum(process['count'], process['bytes'])}, {display.size(process['held'])} of its own")
    if process["objects"]:
        _show_rows(process["objects"])
    left_out = process["count"] - len(process["objects"])
    if left_out:
        click.echo(f"  {display.ellipsis()} and {left_out:,} smaller ones (--limit shows more)")


def _sum(number: int, size: int) -> str:
    return f"{display.count(number, 'object')}, {size:,} bytes"


def _show_rows(rows: Sequence[Row]) -> None:
    """Print one line per object, or two where the terminal is too narrow for the call site."""
    cells = [
        (
            row["object_id"],
            "?" if row["size"] is None else f"{row['size']:,}",
            row["reference"],
            row["state"],
            row["site"],
        )
        for row in rows
    ]
    if not sys.stdout.isatty() or display.terminal_width() >= _WIDE:
        display.table(_HEADS, cells, indent=2, right=(1,))
        return
    widths = [max(len(row[column]) for row in [_HEADS, *cells]) for column in range(4)]
    for number, row in enumerate([_HEADS, *cells]):
        line = f"  {row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:<{widths[2]}}  {row[3]}"
        click.echo(display.heading(line) if number == 0 else line)
        if number:
            click.echo(display.dim("    " + display.shorten(row[4], display.terminal_width() - 4)))

"""`kernel timeline`: write when each call ran, and in which process, as a Chrome trace."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from kernel.cli import display
from kernel.commands import Failure
from kernel.runtime.timeline_events import events_of
from kernel_processes.cli.client import SessionClient, address_option, find_head
from kernel_processes.cli.status_command import show_silent_nodes, show_silent_processes


@click.command("timeline")
@click.argument("file", required=False, type=click.Path(dir_okay=False, writable=True, allow_dash=True))
@address_option
def timeline(file: str | None, address: str | None) -> None:
    """Write when each call ran to FILE (default: kernel-timeline-SESSION.json; - is the standard output).

    Open it in chrome://tracing or https://ui.perfetto.dev. Each process keeps its last 20,000 calls.

    \b
    Examples:
      kernel timeline
      kernel timeline trace.json
      kernel timeline - | python -m json.tool
    """
    session = find_head(address)
    with SessionClient(session) as client:
        found = client.ask("status")
        answer = client.ask("timeline")
    events = events_of(answer["told"])
    show_silent_nodes(found["silent_nodes"], "the names of its processes are")
    show_silent_processes(answer["silent"], "its calls are")
    text = json.dumps([*_names(found), *sorted(events, key=lambda event: event["ts"])])
    if file == "-":
        click.echo(text)
        return
    path = file or f"kernel-timeline-{session.name}.json"
    try:
        with open(path, "w", encoding="utf-8") as target:
            target.write(text)
    except OSError as error:
        raise Failure(f"the timeline can't be written to {path}: {error.strerror}") from error
    pids = {event["pid"] for event in events}
    spans = f"{display.count(len(events), 'span')} of {display.count(len(pids), 'process')}"
    click.echo(f"Wrote {spans} to {click.style(os.path.abspath(path), bold=True)}")
    click.echo("Open it in chrome://tracing or https://ui.perfetto.dev")


def _names(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the trace events that name the processes."""
    names = {job["pid"]: f"program {os.path.basename(job['script'])}" for job in found["jobs"]}
    names |= {worker["pid"]: f"worker {worker['name']}".rstrip() for worker in found["workers"] if worker["pid"]}
    return [
        {"name": "process_name", "ph": "M", "pid": pid, "tid": 0, "args": {"name": name}} for pid, name in names.items()
    ]

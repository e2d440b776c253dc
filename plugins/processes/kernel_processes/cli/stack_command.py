"""`kernel stack`: show the stacks of every process that runs user code, read by py-spy where it is installed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from kernel.cli import display
from kernel.commands import Refusal
from kernel_processes.cli import stacks
from kernel_processes.cli.client import SessionClient, address_option, find_head, json_option
from kernel_processes.cli.status_command import show_silent_nodes
from kernel_processes.node.sessions import SessionDirectory

_SILENT = "it did not answer within two seconds (with py-spy installed its stack can be read from outside)"
_SILENT_ELSEWHERE = "it did not answer within two seconds (kernel stack on its machine can read its stack with py-spy)"

_Place = tuple[str, int]
"""Node (its id, in hexadecimal) and pid of a process."""


@click.command("stack")
@click.option("--pid", type=int, help="Only this process.")
@click.option("--full", is_flag=True, help="Show the kernel's own frames, too.")
@click.option("--own", is_flag=True, help="Ask the processes themselves instead of py-spy.")
@address_option
@json_option
def stack(pid: int | None, full: bool, own: bool, address: str | None, as_json: bool) -> None:
    """Show the Python stacks of all workers and programs of a session, innermost frame first.

    With py-spy installed (pip install py-spy), stacks of processes on this machine are read from outside, also while
    they hang in C code. Other processes are asked for their stacks, and one that hangs does not answer.

    \b
    Examples:
      kernel stack
      kernel stack --pid 4242 --full
      kernel stack --own
      kernel stack --address 10.0.0.1:6380 --token-file kernel.token
    """
    session = find_head(address)
    with SessionClient(session) as client:
        found = client.ask("status")
        here = found["node"] if isinstance(session, SessionDirectory) else ""
        processes = _processes(found)
        if pid is not None:
            chosen = {place: name for place, name in processes.items() if place[1] == pid}
            if not chosen:
                known = ", ".join(str(one) for _, one in sorted(processes)) or "none"
                raise Refusal(f"session {session.name} has no process {pid}; there are {known}")
            processes = chosen
        spied = {} if own else _spied([place for place in processes if place[0] == here])
        said = client.ask("stacks") if len(spied) < len(processes) else {}
    answered = {place: stacks.from_process(threads) for place, threads in said.items() if place not in spied}
    rows: list[dict[str, Any]] = [
        {
            "pid": place[1],
            "node_id": place[0],
            "name": name,
            "by": "py-spy" if place in spied else "itself" if place in answered else None,
            "threads": spied.get(place) or answered.get(place) or [],
        }
        for place, name in processes.items()
    ]
    show_silent_nodes(found["silent_nodes"], "its workers are")
    if as_json:
        display.echo_json([_plain(row) for row in rows])
        return
    if not rows:
        click.echo("This session has no workers and no programs.")
    for number, row in enumerate(rows):
        node = f", node {row['node_id'][:8]}" if row["node_id"] != here else ""
        click.echo("\n" * bool(number) + display.heading(f"pid {row['pid']}{node}  {row['name']}"))
        if row["by"] is None:
            click.echo(f"  {_SILENT_ELSEWHERE if node else _SILENT}")
        stacks.show(row["threads"], full)


def _processes(found: Mapping[str, Any]) -> dict[_Place, str]:
    """Map the place of each process to a description, programs first."""
    processes = {
        (job["node_id"], job["pid"]): f"program {os.path.basename(job['script'])}".rstrip()
        for job in found["jobs"]
        if not job["ended"]
    }
    for worker in found["workers"]:
        if worker["pid"]:
            name = f"worker, {worker['state']}{': ' if worker['name'] else ''}{worker['name']}"
            processes[worker["node_id"], worker["pid"]] = name
    return processes


def _spied(places: list[_Place]) -> dict[_Place, list[stacks.Thread]]:
    """Return the stacks that py-spy reads of processes of this machine, without those that it may not read."""
    spy = stacks.find_spy()
    found = {}
    if spy is not None:
        with display.WaitingMessage(f"looking into {display.count(len(places), 'process')}") as waiting:
            for place in places:
                waiting.show()
                threads = stacks.from_spy(spy, place[1])
                if threads:
                    found[place] = threads
    return found


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    threads = [
        {"id": thread.id, "name": thread.name, "frames": [frame._asdict() for frame in thread.frames]}
        for thread in row["threads"]
    ]
    return {**row, "threads": threads}

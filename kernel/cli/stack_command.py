"""`kernel stack`: what every process that runs user code is doing, by py-spy where there is one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from kernel.cli import display, stacks
from kernel.cli.client import SessionClient, address_option, find_session, json_option
from kernel.cli.refusals import Refusal

_SILENT = "it did not answer within two seconds (pip install py-spy looks into it from outside)"


@click.command("stack")
@click.option("--pid", type=int, help="Only this process.")
@click.option("--full", is_flag=True, help="Also the kernel's own frames.")
@click.option("--own", is_flag=True, help="Ask the processes themselves instead of py-spy.")
@address_option
@json_option
def stack(pid: int | None, full: bool, own: bool, address: str | None, as_json: bool) -> None:
    """Show the Python stacks of all workers and programs of a session, innermost frame first.

    With py-spy installed (pip install py-spy) also those of processes that hang in C code; without it each process
    is asked, and one that can't answer says nothing.

    \b
    Examples:
      kernel stack
      kernel stack --pid 4242 --full
      kernel stack --own
    """
    session = find_session(address)
    with SessionClient(session) as client:
        processes = _processes(client.ask("status"))
        if pid is not None:
            if pid not in processes:
                known = ", ".join(str(one) for one in sorted(processes)) or "none"
                raise Refusal(f"session {session.name} has no process {pid}; there are {known}")
            processes = {pid: processes[pid]}
        spied = {} if own else _spied(list(processes))
        said = client.ask("stacks") if len(spied) < len(processes) else {}
    told = {one: stacks.from_process(threads) for one, threads in said.items() if one not in spied}
    rows: list[dict[str, Any]] = [
        {
            "pid": one,
            "name": name,
            "by": "py-spy" if one in spied else "itself" if one in told else None,
            "threads": spied.get(one) or told.get(one) or [],
        }
        for one, name in processes.items()
    ]
    if as_json:
        display.echo_json([_plain(row) for row in rows])
        return
    if not rows:
        click.echo("No worker and no program is in this session.")
    for number, row in enumerate(rows):
        click.echo("\n" * bool(number) + display.heading(f"pid {row['pid']}  {row['name']}"))
        if row["by"] is None:
            click.echo(f"  {_SILENT}")
        stacks.show(row["threads"], full)


def _processes(found: Mapping[str, Any]) -> dict[int, str]:
    """Return pid to description, programs first."""
    processes = {
        job["pid"]: f"program {os.path.basename(job['script'])}".rstrip() for job in found["jobs"] if not job["ended"]
    }
    for worker in found["workers"]:
        if worker["pid"]:
            processes[worker["pid"]] = f"worker, {worker['state']}{': ' if worker['name'] else ''}{worker['name']}"
    return processes


def _spied(pids: list[int]) -> dict[int, list[stacks.Thread]]:
    """Return what py-spy sees; nothing for processes that it may not look into."""
    spy = stacks.find_spy()
    found = {}
    if spy is not None:
        with display.Waiting(f"looking into {display.count(len(pids), 'process')}") as waiting:
            for pid in pids:
                waiting.show()
                threads = stacks.from_spy(spy, pid)
                if threads:
                    found[pid] = threads
    return found


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    threads = [
        {"id": thread.id, "name": thread.name, "frames": [frame._asdict() for frame in thread.frames]}
        for thread in row["threads"]
    ]
    return {**row, "threads": threads}

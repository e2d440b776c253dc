"""`kernel logs`: show the output of one worker or all workers, and follow it."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from kernel.cli import display
from kernel.commands import Refusal, nearest
from kernel_engine.terminal_text import harmless
from kernel_processes.cli import log_files
from kernel_processes.cli.client import SessionClient, address_option, find_session
from kernel_processes.cli.log_files import LogLine
from kernel_processes.cli.status_command import show_silent_nodes
from kernel_processes.cli.values import id_of
from kernel_processes.node.sessions import SessionDirectory


@click.command("logs")
@click.option("--follow", "-f", is_flag=True, help="Show further lines as they are written, until Ctrl-C.")
@click.option(
    "--lines", "-n", type=click.IntRange(min=0), default=100, show_default=True, help="Number of last lines to show."
)
@click.option("--worker", metavar="ID", help="Only this worker (the first characters of its id).")
@click.option("--pid", type=int, help="Only the worker with this process id, also after its end.")
@click.option("--actor", metavar="ID|NAME", help="Only this actor: its id, its name or its class.")
@click.option("--agent", is_flag=True, help="Show the node agent's own log instead.")
@address_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object a line.")
def logs(
    follow: bool,
    lines: int,
    worker: str | None,
    pid: int | None,
    actor: str | None,
    agent: bool,
    address: str | None,
    as_json: bool,
) -> None:
    """Show the output of a session's workers, with time, task or actor, and process.

    In a cluster these are the workers of the node on this machine: each node keeps the output of its own workers.

    \b
    Examples:
      kernel logs
      kernel logs --follow
      kernel logs --pid 4242 -n 1000
      kernel logs --actor counter --follow
    """
    session = find_session(address, "each node keeps the output of its workers: run kernel logs on that machine")
    if agent:
        _show_agent(session, lines)
        return
    wanted = _Wanted(session, worker, pid, actor)
    folder = os.path.join(session.directory, "logs")
    follower = log_files.Follower(folder)  # opened before the tail is read, so that no line is missed
    shown = log_files.tail(folder, lines, wanted, follower.position)
    for line in shown:
        _show(line, as_json)
    if not follow:
        if not shown and pid is not None:
            wanted.check_pid(pid)
        elif not shown and actor is not None:
            click.echo(f"actor {actor} has written nothing so far{wanted.elsewhere()}", err=True)
        return
    for line in _followed(follower, session):
        wanted.look_again(line)
        if wanted(line):
            _show(line, as_json)
    click.echo(f"session {session.name} has ended", err=True)


class _Wanted:
    """Decides whether a line is shown, by worker, pid and actor. Raises Refusal for an unknown actor or invalid id."""

    def __init__(self, session: SessionDirectory, worker: str | None, pid: int | None, actor: str | None) -> None:
        self._session = session
        self._pid = pid
        self._worker = worker.lower() if worker else None
        if self._worker is not None and not re.fullmatch("[0-9a-f]+", self._worker):
            raise Refusal(f"--worker {worker!r} is no id; ids are hexadecimal (kernel status --json lists them)")
        self._actor = actor
        self._workers: set[str] = set()
        self._classes: set[str] = set()
        self._others: set[str] = set()
        self._nodes: set[str] = set()
        self._look(actor)

    def __call__(self, line: LogLine) -> bool:
        if self._pid is not None and line.pid != self._pid:
            return False
        if self._worker is not None and not (
            line.worker.startswith(self._worker) or self._worker.startswith(line.worker)
        ):
            return False
        return self._actor is None or line.worker in self._workers

    def look_again(self, line: LogLine) -> None:
        """Look up the actor's workers again if the actor may have restarted on the worker that wrote `line`."""
        if line.name in self._classes and line.worker not in self._workers | self._others:
            with contextlib.suppress(click.ClickException):  # The session may have ended, or the actor be forgotten.
                self._look(self._actor)
            if line.worker not in self._workers:
                self._others.add(line.worker)

    def elsewhere(self) -> str:
        """Return a hint if the actor runs on another node, which keeps its output; otherwise ""."""
        with SessionClient(self._session) as client:
            found = client.ask("status")
        nodes = {row["NodeID"]: f"{row['NodeID'][:8]} ({row['NodeManagerHostname']})" for row in found["nodes"]}
        there = [nodes[id] for id in self._nodes if id in nodes and id != found["node"]]
        return f" on this node; it runs on node {', '.join(there)}: run kernel logs there" if there else ""

    def check_pid(self, pid: int) -> None:
        """Raise Refusal if no worker has the process id `pid`."""
        with SessionClient(self._session) as client:
            found = client.ask("status")
        pids = sorted(worker["pid"] for worker in found["workers"] if worker["pid"])
        if pid not in pids:
            show_silent_nodes(found["silent_nodes"], "its workers are")
            known = ", ".join(map(str, pids)) or "none"
            raise Refusal(f"nothing was written by a process {pid}; workers of {self._session.name}: {known}")

    def _look(self, actor: str | None) -> None:
        """Look up the workers on which the actor has run. Raises Refusal for an unknown actor."""
        if actor is None:
            return
        with SessionClient(self._session) as client:
            actors = client.ask("actors")
        text = id_of(actor)
        for fits in (
            lambda row: row["name"] == text != "",
            lambda row: row["class_name"] == text,
            lambda row: len(text) >= 4 and row["actor_id"].startswith(text.lower()),
        ):
            found = [row for row in actors if fits(row)]
            if found:
                self._workers |= {worker[:8] for row in found for worker in row["workers"]}
                self._classes |= {row["class_name"] for row in found}
                self._nodes |= {row["node_id"] for row in found}
                return
        names = sorted({row["name"] for row in actors} | {row["class_name"] for row in actors})
        raise Refusal(f"session {self._session.name} has no actor {actor!r}{nearest(text, filter(None, names))}")


def _followed(follower: log_files.Follower, session: SessionDirectory) -> Iterator[LogLine]:
    """Yield new lines until the session has ended."""
    while True:
        alive = session.is_running()
        yield from follower.new_lines()
        if not alive:
            return
        follower.wait()


def _show(line: LogLine, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(line._asdict()))
        return
    time = datetime.fromtimestamp(line.time).strftime("%H:%M:%S.%f")[:-3]
    origin = f"({line.name or 'worker'} pid={line.pid})"
    colour = "yellow" if line.stream == "err" else "cyan"
    click.echo(f"{display.dim(time)} {click.style(origin, fg=colour)} {harmless(line.text)}")


def _show_agent(session: SessionDirectory, lines: int) -> None:
    said: list[Any] = []
    for name in ("agent.log", "agent.err"):
        try:
            with open(os.path.join(session.directory, "logs", name), encoding="utf-8", errors="replace") as file:
                said += file.read().splitlines()
        except OSError:
            continue
    for line in said[max(0, len(said) - lines) :]:
        click.echo(line)

"""`kernel stop`: end the nodes and clusters that `kernel start` started, and print what ended."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from kernel.cli import display
from kernel.commands import Failure, Refusal
from kernel_processes.cli.client import DistantHead, SessionClient, match_session, tls_option
from kernel_processes.cli.ending import END_SECONDS, end_session, kill_session
from kernel_processes.cli.tokens import token_option, token_to_join
from kernel_processes.node.session_lock import is_held
from kernel_processes.node.session_root import root_directory
from kernel_processes.node.sessions import SessionDirectory, remove, running_sessions, sessions_elsewhere, sweep
from kernel_processes.transport.addresses import parse_host_and_port
from kernel_spec.errors import KernelError
from kernel_spec.tls_files import TlsFiles

_ANSWER_SECONDS = 5.0


@click.command("stop")
@click.argument("session", required=False)
@click.option("--force", "-f", is_flag=True, help="Kill at once (SIGKILL), also sessions that don't answer any more.")
@click.option("--all", "everything", is_flag=True, help="End the sessions of running programs, too.")
@click.option("--address", metavar="HOST:PORT", help="End the cluster whose head is there, from any machine.")
@token_option
@tls_option
@click.option("--json", "as_json", is_flag=True, help="Print what was ended as JSON.")
def stop(
    session: str | None,
    force: bool,
    everything: bool,
    address: str | None,
    token_file: Path | None,
    tls: str | None,
    as_json: bool,
) -> None:
    """End all that `kernel start` started on this machine, or only SESSION (its name or a part of it).

    A node that has joined a cluster leaves it, and the cluster goes on. On the head's machine the whole cluster ends.
    A session that a program started with kernel.init() ends with that program; it is left alone unless --all or its
    full name is given. Directories of sessions whose agent has died are removed. Sessions of other hosts and PID
    namespaces (containers) in the same directory are left alone; --force with the full name of one that has surely
    ended removes its directory.

    \b
    Examples:
      kernel stop
      kernel stop session_2026-11-21_11-25-35_123456_4242
      kernel stop --force
      kernel stop --all
      kernel stop --address 10.0.0.1:6380 --token-file kernel.token
    """
    if address is not None:
        if session is not None or force or everything:
            raise Refusal("--address ends a cluster by asking its head, and goes with no SESSION, --force or --all")
        _end_cluster(address, token_file, tls, as_json)
        return
    root = root_directory()
    elsewhere = sessions_elsewhere()
    if session in elsewhere:
        _remove_left(root, session, elsewhere[session], force, as_json)
        return
    running = running_sessions()
    chosen = [one for one in running if one.stays or everything]
    chosen.sort(key=lambda one: not one.head)  # Nodes first: a node that joined a head ends with that head.
    if session is not None:
        chosen = [named_session(session, chosen, running)]
    ended, failures = [], []
    for one in chosen:
        try:
            row = _force(one) if force else _end(one)
        except (Failure, KernelError) as error:
            failures.append(error.message if isinstance(error, Failure) else str(error))
            continue
        ended.append(row)
        if not as_json:
            click.echo(_sentence(row))
    swept = sweep(root) if session is None or force else []
    if as_json:
        display.echo_json({"ended": ended, "failures": failures, "swept": swept, "elsewhere": elsewhere})
    elif swept:
        click.echo(f"Removed what was left of {', '.join(swept)}, whose agent had died.")
    elif not chosen:
        click.echo(_nothing(running))
    if not as_json and session is None:
        for name, where in elsewhere.items():
            click.echo(f"Left alone: {name}, which is {where}{_remedy(root, name)}.")
    if failures:
        raise Failure("; ".join(failures))


def _remedy(root: str, name: str) -> str:
    """Return a hint how to remove a session elsewhere, "" if it runs for sure."""
    return "" if is_held(os.path.join(root, name)) else f"; if it is over for sure: kernel stop --force {name}"


def _remove_left(root: str, name: str, where: str, force: bool, as_json: bool) -> None:
    """Remove the directory of a session elsewhere; only the user can know that the session has ended."""
    directory = os.path.join(root, name)
    if is_held(directory):
        raise Refusal(f"{name} is {where}, and is running there: stop it there")
    if not force:
        raise Refusal(
            f"{name} is {where}: stop it there. If it is over for sure, remove what it left: kernel stop --force {name}"
        )
    remove(directory)
    if as_json:
        display.echo_json({"ended": [], "failures": [], "swept": [name], "elsewhere": {}})
    else:
        click.echo(f"Removed what was left of {name}.")


def named_session(name: str, chosen: list[SessionDirectory], running: list[SessionDirectory]) -> SessionDirectory:
    """Return the session of `chosen` whose name contains `name`, or the one of `running` whose full name it is.

    Raises Refusal when no session matches.
    """
    wanted = name.strip().rstrip("/")
    if not wanted:
        raise Refusal(f"{name!r} is not the name of a session; without a name, all that `kernel start` started ends")
    others = [one for one in running if one not in chosen]
    for one in others:
        if wanted in (one.name, one.directory):
            return one
    partly = [one.name for one in others if wanted in one.name]
    if partly and not any(wanted in one.name for one in chosen):
        raise Refusal(f"{name!r} is a part of {', '.join(partly)}: a program's session needs its full name, or --all")
    return match_session(wanted, chosen or running)


def _end(session: SessionDirectory) -> dict[str, Any]:
    begun = time.monotonic()
    try:
        with SessionClient(session, _ANSWER_SECONDS) as client:
            found = client.ask("status")
    except Failure:
        if not session.head:
            raise
        found = None  # The head is away; the node can end without it.
    with display.WaitingMessage(f"ending {session.name}") as waiting:
        end_session(session, waiting.show)
    return {
        "session": session.name,
        "agent_pid": session.pid,
        "forced": False,
        "head": session.head or None,
        **_counts(session, found),
        "seconds": round(time.monotonic() - begun, 3),
    }


def _counts(session: SessionDirectory, found: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the counts of what ended with a session: of the whole cluster, or of the node that left it."""
    if found is None:
        return {"workers": 0, "actors": 0, "programs": 0}
    nodes = {found["node"]} if session.head else {row["NodeID"] for row in found["nodes"]}
    actors = [actor for actor in found["actors"] if actor["state"] != "DEAD"]
    counts: dict[str, Any] = {
        "workers": sum(worker["node_id"] in nodes for worker in found["workers"]),
        "actors": sum(not session.head or actor["node_id"] in nodes for actor in actors),
        "programs": sum(not job["ended"] and job["node_id"] in nodes for job in found["jobs"]),
    }
    if not session.head:
        counts |= {"nodes": sum(row["Alive"] for row in found["nodes"])}
        counts |= {"up_seconds": round(time.time() - found["started"], 3)}
    return counts


def _end_cluster(place: str, token_file: Path | None, tls: str | None, as_json: bool) -> None:
    parse_host_and_port(place)
    files = TlsFiles.of_directory(tls) if tls else None
    with SessionClient(DistantHead(place, token_to_join(place, token_file), files), _ANSWER_SECONDS) as client:
        client.ask("stop")
        if not client.await_end(END_SECONDS):
            raise Failure(f"the head at {place} was asked to end the cluster, and has not within {END_SECONDS:g} s")
    if as_json:
        display.echo_json({"ended": [{"head": place}], "failures": [], "swept": [], "elsewhere": {}})
    else:
        click.echo(f"Ended the cluster at {place}.")


def _force(session: SessionDirectory) -> dict[str, Any]:
    begun = time.monotonic()
    processes = kill_session(session)
    return {
        "session": session.name,
        "agent_pid": session.pid,
        "forced": True,
        "processes": processes,
        "seconds": round(time.monotonic() - begun, 3),
    }


def _sentence(row: dict[str, Any]) -> str:
    name = click.style(row["session"], bold=True)
    if row["forced"]:
        return f"Killed {name}: {display.count(row['processes'], 'process')}"
    parts = [display.count(row["workers"], "worker"), display.count(row["actors"], "actor")]
    if row["programs"]:
        parts.append(f"{display.count(row['programs'], 'program')} cut off")
    if row["head"]:
        return f"Ended {name}, a node of the cluster at {row['head']}: {', '.join(parts)}; the cluster goes on"
    if row["nodes"] > 1:
        parts.insert(0, display.count(row["nodes"], "node"))
    return f"Ended {name}: {', '.join(parts)}; it was up for {display.duration(row['up_seconds'])}"


def _nothing(running: list[SessionDirectory]) -> str:
    if not running:
        return "Nothing to stop: no session of yours is running."
    names = ", ".join(one.name for one in running)
    return f"Nothing to stop: what is running belongs to programs (--all ends that too): {names}"

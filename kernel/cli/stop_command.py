"""`kernel stop`: ends what `kernel start` started, and says what that was."""

from __future__ import annotations

import time
from typing import Any

import click

from kernel.cli import display
from kernel.cli.client import SessionClient, match_session
from kernel.cli.ending import end_session, kill_session
from kernel.cli.refusals import Failure
from kernel.node.sessions import Session, root_directory, running_sessions, sweep
from kernel_spec.errors import KernelError

_ANSWER_SECONDS = 5.0


@click.command("stop")
@click.argument("session", required=False)
@click.option("--force", "-f", is_flag=True, help="Kill at once (SIGKILL), also what does not answer any more.")
@click.option("--all", "everything", is_flag=True, help="Also the sessions of running programs.")
@click.option("--json", "as_json", is_flag=True, help="Print what was ended as JSON.")
def stop(session: str | None, force: bool, everything: bool, as_json: bool) -> None:
    """End sessions that `kernel start` started, or only SESSION (its name or a part of it).

    Sessions that a program started for itself with kernel.init() end with that program; they are left alone unless
    --all or their name says otherwise.

    \b
    Examples:
      kernel stop
      kernel stop session_2026-11-21_11-25-35_123456_4242
      kernel stop --force
      kernel stop --all
    """
    running = running_sessions()
    if session is not None:
        chosen = [match_session(session, running)]
    else:
        chosen = [one for one in running if one.stays or everything]
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
    if force:
        sweep(root_directory())
    if as_json:
        display.echo_json({"ended": ended, "failures": failures})
    elif not chosen:
        click.echo(_nothing(running))
    if failures:
        raise Failure("; ".join(failures))


def _end(session: Session) -> dict[str, Any]:
    begun = time.monotonic()
    with SessionClient(session, _ANSWER_SECONDS) as client:
        found = client.ask("status")
    with display.Waiting(f"ending {session.name}") as waiting:
        end_session(session, waiting.show)
    actors = [actor for actor in found["actors"] if actor["state"] != "DEAD"]
    return {
        "session": session.name,
        "agent_pid": session.pid,
        "forced": False,
        "workers": len(found["workers"]),
        "actors": len(actors),
        "programs": len([job for job in found["jobs"] if not job["ended"]]),
        "up_seconds": round(time.time() - found["started"], 3),
        "seconds": round(time.monotonic() - begun, 3),
    }


def _force(session: Session) -> dict[str, Any]:
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
    return f"Ended {name}: {', '.join(parts)}; it was up for {display.duration(row['up_seconds'])}"


def _nothing(running: list[Session]) -> str:
    if not running:
        return "Nothing to stop: no session of yours is running."
    names = ", ".join(one.name for one in running)
    return f"Nothing to stop: what is running belongs to programs (--all ends that too): {names}"

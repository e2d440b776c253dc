"""End a session from outside: by asking its agent, or by killing its processes."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from kernel.commands import Failure
from kernel_processes.cli.client import SessionClient
from kernel_processes.node.sessions import SessionDirectory, remove
from kernel_processes.system.processes import descendants_of, is_alive, kill

END_SECONDS = 15.0
"""Seconds to wait for the end of a session."""
_POLL_SECONDS = 0.02


def end_session(session: SessionDirectory, waiting: Callable[[], None] = lambda: None) -> None:
    """Ask the agent to end the session, wait until its process has ended, and remove the session's directory.

    `waiting` is called repeatedly meanwhile. Raises Failure when the agent does not answer or does not end.
    """
    if session.is_running():
        with SessionClient(session) as client:
            client.ask("stop")
        if not _await_end(lambda: not session.is_running() and not session.has_process(), waiting):
            raise Failure(
                f"session {session.name} has not ended within {END_SECONDS:g} s (agent pid {session.pid}); "
                f"kill it with: kernel stop --force {session.name}"
            )
    remove(session.directory)


def kill_session(session: SessionDirectory) -> int:
    """Kill the agent and all of its descendants, remove the directory, and return the number of killed processes.

    Raises Failure when a process does not end.
    """
    family = _stopped_family(session.pid) if session.is_running() and session.has_process() else []
    for pid in family:
        kill(pid)
    if not _await_end(lambda: not any(is_alive(pid) for pid in family), lambda: None):
        left = ", ".join(str(pid) for pid in family if is_alive(pid))
        raise Failure(f"processes of session {session.name} survived SIGKILL: {left} (waiting for a device or a disk?)")
    remove(session.directory)
    return len(family)


def _stopped_family(agent: int) -> list[int]:
    """Stop an agent and its descendants, so that none of them can start another, and return their pids."""
    family: list[int] = []
    while True:
        more = [pid for pid in [agent, *descendants_of(agent)] if pid not in family]
        if not more:
            return family
        for pid in more:
            kill(pid, signal.SIGSTOP)
        family += more


def _await_end(ended: Callable[[], bool], waiting: Callable[[], None]) -> bool:
    deadline = time.monotonic() + END_SECONDS
    while not ended():
        if time.monotonic() > deadline:
            return False
        waiting()
        time.sleep(_POLL_SECONDS)
    return True

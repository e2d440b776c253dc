"""Processes of this machine: ending whole families, and saying how one died. Linux first, portable where it can be."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Container

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NAME = 15
_PR_SET_PDEATHSIG = 1


def _prctl(option: int, value: object) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def become_subreaper() -> None:
    """Inherit orphaned descendants, so that they can be found and ended."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_title(title: str) -> None:
    """Show `title` (15 characters) as the process's name in `ps -c` and `top`."""
    _prctl(_PR_SET_NAME, title.encode()[:15])


def children_of(pid: int) -> list[int]:
    """Return the living children of a process."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    children: list[int] = []
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                children += [int(child) for child in file.read().split()]
        except OSError:
            continue
    return children


def descendants_of(pid: int) -> list[int]:
    """Return all living descendants of a process, parents before children."""
    found: list[int] = []
    wave = children_of(pid)
    while wave:
        found += wave
        wave = [grandchild for child in wave for grandchild in children_of(child)]
    return found


def end_descendants(pid: int, spare: frozenset[int] = frozenset(), seconds: float = 2.0) -> None:
    """Kill every descendant of `pid` but `spare`, again until none is left or `seconds` are over."""
    deadline = time.monotonic() + seconds
    while True:
        alive = [child for child in descendants_of(pid) if child not in spare]
        if not alive:
            return
        for child in alive:
            kill(child)
        _reap_all()
        if time.monotonic() > deadline:
            return
        time.sleep(0.005)


def end_orphans(sessions: Container[int], spare: Container[int]) -> None:
    """Kill the children of this process, but `spare`, that belong to one of `sessions`, and what they started.

    Those are what dead session leaders left to this process (a subreaper); who began a session of its own stays.
    """
    for child in children_of(os.getpid()):
        if child not in spare and _session_of(child) in sessions:
            for descendant in [*descendants_of(child), child]:
                kill(descendant)


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal; a process that is gone is fine."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def is_alive(pid: int) -> bool:
    """Return whether a process exists (and is not a zombie)."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def describe_status(status: int) -> str:
    """Return a wait status in words: `signal 9 (SIGKILL)`, `exit code 3`."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = "unknown"
        return f"it was ended by signal {number} ({name})"
    return f"it ended with exit code {os.waitstatus_to_exitcode(status)}"


def _reap_all() -> None:
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return

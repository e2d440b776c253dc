"""End trees of processes on this machine, and describe how a process ended. Written for Linux first."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import time
from collections.abc import Container

from kernel.runtime import process_title

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NAME = 15
_OFFERED_SCORE = 500
"""Added to the `oom_score_adj` of a process, which then counts as if it held half of all memory in addition."""


def _prctl(option: int, value: object) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def command_of(module: str, *arguments: str) -> list[str]:
    """Return the command that runs `main` of a module, without the current directory in `sys.path`.

    Garbage collection is disabled until `main` calls `collect_garbage`: collecting during imports, which leave no
    garbage, takes a fifth of the time of a start.
    """
    lines = [
        "import gc, sys",
        "gc.disable()",
        "sys.path[:] = filter(None, sys.path)",
        f"from {module} import main",
        "from kernel_processes.system.process_exit import finish",
        "finish(main())",
    ]
    return [sys.executable, "-c", "; ".join(lines), *arguments]


def collect_garbage() -> None:
    """Enable garbage collection, and freeze existing objects (`gc.freeze`), which are mostly modules."""
    gc.freeze()
    gc.enable()


def become_subreaper() -> None:
    """Make this process the parent of its orphaned descendants, so that they can be found and ended. Linux only."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_title(title: str, more: str = "") -> None:
    """Set the process's name in `ps -c` and `top` to `title` (15 bytes at most), and its line in `ps` to both texts."""
    _prctl(_PR_SET_NAME, title.encode()[:15])
    process_title.show(f"{title} {more}".rstrip())


def offer_to_end() -> None:
    """Raise the `oom_score_adj` of this process, so that the system kills it before the agent when memory runs out."""
    try:
        with open("/proc/self/oom_score_adj", "r+") as file:
            score = max(int(file.read()), _OFFERED_SCORE)
            file.seek(0)
            file.write(str(score))
    except (OSError, ValueError):
        return  # not Linux, or not allowed


def children_of(pid: int) -> list[int]:
    """Return the pids of the living children of a process; an empty list for an unknown process."""
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
    """Return the pids of all living descendants of a process, parents before children."""
    found: list[int] = []
    wave = children_of(pid)
    while wave:
        found += wave
        wave = [grandchild for child in wave for grandchild in children_of(child)]
    return found


def end_descendants(pid: int, spare: frozenset[int] = frozenset(), seconds: float = 2.0) -> None:
    """Kill every descendant of `pid` except `spare`, and repeat until none is left or `seconds` have passed."""
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
    """Kill the children of this process, except `spare`, that belong to one of `sessions`, and their descendants.

    `sessions` are ids of POSIX sessions whose leaders have died; this process (a subreaper) has inherited their
    processes. A process with a session of its own is left alone.
    """
    for child in children_of(os.getpid()):
        if child not in spare and session_of(child) in sessions:
            for descendant in [*descendants_of(child), child]:
                kill(descendant)


def reap_adopted(known: Container[int]) -> list[tuple[int, int]]:
    """Reap dead children of this process that are `known`, or that it inherited from dead parents.

    Return their process ids and wait statuses. A child in the POSIX session of this process, or one that leads a
    session, is left alone: a plugin may have started it and may be waiting for it.
    """
    ours = os.getsid(0)
    found = []
    for child in children_of(os.getpid()):
        if child in known or session_of(child) not in (ours, child):
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                found.append((pid, status))
    return found


def session_of(pid: int) -> int:
    """Return the POSIX session of a process, which is the id of its leader; 0 when there is no such process."""
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send the signal `number` to a process; do nothing if it does not exist. Raises PermissionError."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    return birth(pid) is not None


def birth(pid: int) -> int | None:
    """Return when a living process was started (clock ticks since boot), or None when there is no such process.

    Pid and start time together identify a process; a pid alone may be reused.
    """
    try:
        with open(f"/proc/{pid}/stat") as file:
            state, *numbers = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in ("Z", "X") else int(numbers[18])


def describe_status(status: int) -> str:
    """Describe a wait status in words: `it was ended by signal 9 (SIGKILL)`, `it ended with exit code 3`."""
    return describe_code(os.waitstatus_to_exitcode(status))


def describe_code(code: int) -> str:
    """Describe an exit code in words; a negative number is a signal."""
    if code >= 0:
        return f"it ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    return f"it was ended by signal {-code} ({name})"


def _reap_all() -> None:
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


def ignore_terminal_signals() -> None:
    """Ignore SIGINT: a Ctrl-C is for the driver only."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

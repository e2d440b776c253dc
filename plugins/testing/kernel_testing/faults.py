"""Fault injection: find the processes of a session, then kill, pause or slow them.

    with running_session(num_cpus=2) as session:
        kill(session.workers()[0])

Everything here looks at /proc and therefore runs on Linux.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kernel_processes.system.processes import children_of, descendants_of, is_alive

AGENT = "kernel: agent"
TEMPLATE = "kernel: templat"
WORKER = "kernel: worker"
_SLICE_SECONDS = 0.02
PATIENCE_SECONDS = 120.0
"""Seconds that a test waits for a condition: on a busy machine a moment can become a minute."""


def wait_until(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Return as soon as `condition()` is true. Raises AssertionError, saying `what` did not happen, after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen within {seconds} s")
        time.sleep(0.01)


def title_of(pid: int) -> str:
    """Return a process's name as `ps -c` shows it, or nothing when there is no such process."""
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().rstrip("\n")
    except OSError:
        return ""


def agents_of(pid: int | None = None) -> list[int]:
    """Return the node agents that a program (by default this one) has started."""
    return [child for child in children_of(pid or os.getpid()) if title_of(child) == AGENT and is_alive(child)]


def template_of(agent: int) -> int:
    """Return the template process of an agent. Raises AssertionError when it has none."""
    for child in children_of(agent):
        if title_of(child) == TEMPLATE and is_alive(child):
            return child
    raise AssertionError(f"agent {agent} has no template process at present")


def workers_of(agent: int) -> list[int]:
    """Return the worker processes of an agent, oldest first."""
    return sorted(pid for pid in descendants_of(agent) if title_of(pid) == WORKER and is_alive(pid))


def kill(pid: int) -> None:
    """End a process as the operating system would: without a warning."""
    os.kill(pid, signal.SIGKILL)


@contextmanager
def paused(pid: int) -> Iterator[None]:
    """Stop a process; let it go on when the block is left."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        _continue(pid)


@contextmanager
def slowed(pid: int, share: float) -> Iterator[None]:
    """Let a process run only `share` (0 to 1) of the time, in slices of some milliseconds."""
    if not 0 < share <= 1:
        raise ValueError(f"a process can be slowed to a share of its time above 0 and up to 1, not {share}")
    done = threading.Event()

    def slow() -> None:
        while not done.is_set():
            if not _signal(pid, signal.SIGSTOP):
                return
            done.wait(_SLICE_SECONDS * (1 - share))
            _continue(pid)
            done.wait(_SLICE_SECONDS * share)

    thread = threading.Thread(target=slow, name="slow-process", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        _continue(pid)


def _continue(pid: int) -> None:
    _signal(pid, signal.SIGCONT)


def _signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True

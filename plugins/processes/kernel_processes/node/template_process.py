"""Start a template process: the first as a fork of the agent, each later one as a program of its own.

The agent forks when it has loaded and opened next to nothing, so that a fork is as clean as a new program, and starts
much sooner. Later it has files, timers and perhaps threads that no worker must inherit.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Protocol

from kernel_processes.node.template import serve
from kernel_processes.system.processes import command_of, kill


class TemplateProcess(Protocol):
    """Represents the process of a template, which the agent starts and ends."""

    pid: int

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code, or a signal as a negative number. Raises subprocess.TimeoutExpired."""

    def terminate(self) -> None:
        """Send SIGTERM."""

    def kill(self) -> None:
        """Send SIGKILL."""


def run_template(preload: Sequence[str]) -> tuple[socket.socket, TemplateProcess]:
    """Begin a template as a program; return the link to it, and the process. Raises OSError when that is impossible."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = command_of("kernel_processes.node.template", str(theirs.fileno()), *preload)
    try:
        with theirs:
            process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    except OSError:
        ours.close()
        raise
    return ours, process


def fork_template(preload: Sequence[str]) -> tuple[socket.socket, TemplateProcess]:
    """Begin a template as a fork of this process, which has one thread and runs nothing in that child but this."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        _be_template(theirs, preload)
    theirs.close()
    return ours, _Fork(pid)


def _be_template(link: socket.socket, preload: Sequence[str]) -> None:
    code = 1
    try:
        os.closerange(3, link.fileno())
        os.closerange(link.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115  (for as long as the process lives)
        serve(link, preload)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


class _Fork:
    """Represents a forked child, with the part of `subprocess.Popen` that is used for others."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, or a signal as a negative number. Raises subprocess.TimeoutExpired."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._code is None:
            pid, status = os.waitpid(self.pid, 0 if deadline is None else os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
            elif timeout is not None and deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("template", timeout)
            else:
                time.sleep(0.005)
        return self._code

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self._code is None:  # Afterwards the pid may be another process's.
            kill(self.pid, number)

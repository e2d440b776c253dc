"""Explain the ends of workers by their exit statuses, and remove the files that they left."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress

from kernel_processes.node.crash_output import agent_crash_output, crash_output
from kernel_processes.node.directory_watch import DirectoryWatch
from kernel_processes.node.log_service import LogService
from kernel_processes.node.memory_watch import MemoryWatch
from kernel_processes.node.worker_pool import WorkerRecord
from kernel_processes.protocol.agent_config import AgentConfig
from kernel_processes.system.processes import describe_status
from kernel_processes.transport.background import Background
from kernel_processes.transport.socket_receiver import SUFFIX


class WorkerExits:
    """Says why workers of a node have ended. Runs in the agent's loop; files are read and removed in `tidying`."""

    def __init__(
        self,
        config: AgentConfig,
        logs: LogService,
        memory: MemoryWatch,
        watch: DirectoryWatch,
        tidying: Background,
    ) -> None:
        self._config = config
        self._logs = logs
        self._memory = memory
        self._watch = watch
        self._tidying = tidying
        self._statuses: dict[int, int] = {}

    def note(self, pid: int, status: int) -> None:
        """A worker has exited."""
        self._statuses[pid] = status

    def take(self, pid: int) -> int | None:
        """Return the exit status of a worker, if it is known, and forget it."""
        return self._statuses.pop(pid, None)

    def was_killed(self, pid: int) -> bool:
        """Return whether a worker is known to have been killed (by SIGKILL)."""
        status = self._statuses.get(pid)
        return status is not None and os.waitstatus_to_exitcode(status) == -signal.SIGKILL

    def cause(self, worker: WorkerRecord, status: int) -> str:
        """Return why a worker has ended, in words."""
        if worker.cause:
            return worker.cause
        if os.waitstatus_to_exitcode(status) == -signal.SIGKILL and (text := self._memory.note_kill(worker)):
            return text
        text = f"{describe_status(status)} (pid {worker.pid}, node {self._config.node.hex()[:8]})"
        tail = crash_output(self._logs.tail(worker.id))
        if tail and status:
            text += "; the last it wrote to stderr:\n  " + "\n  ".join(tail)
        return text

    def look_for_directory(self, then: Callable[[str], None]) -> None:
        """Call `then` with why no worker can come up, if the session's directory is gone, else with nothing."""
        self._watch.look(then)

    @property
    def template_log(self) -> str:
        """The file to which the template writes its errors."""
        return f"{self._config.directory}/logs/agent.err"

    def template_output(self, then: Callable[[str | Exception], None]) -> None:
        """Call `then` with what the template has written last, to be appended to a message."""
        directory = self._config.directory
        self._tidying.do(lambda: agent_crash_output(directory), then)

    def remove_files(self, worker: WorkerRecord) -> None:
        """Remove the sockets of a worker that is gone."""
        socket = os.path.join(self._config.directory, "sockets", worker.id.hex())
        self._tidying.do(lambda: _remove_files(socket, socket + SUFFIX))


def _remove_files(*paths: str) -> None:
    for path in paths:
        with suppress(OSError):
            os.unlink(path)

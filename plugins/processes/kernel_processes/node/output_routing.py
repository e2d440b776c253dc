"""Route workers' output: to the drivers concerned on this node, and to the head for drivers on other nodes."""

from __future__ import annotations

import os

from kernel_engine.messages.named_messages import packed
from kernel_engine.messages.process_messages import FAILURE_STREAM, NOTICE_STREAM
from kernel_processes.node.head_client import HeadClient
from kernel_processes.node.log_feed import LogFeed
from kernel_processes.node.process_table import ProcessTable
from kernel_processes.node.worker_pool import WorkerPool
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.detached_jobs import DETACHED
from kernel_processes.transport.connection import Connection
from kernel_spec.ids import JobId, ProcessId

_WISHES = {FAILURE_STREAM: "wants_failures", NOTICE_STREAM: ""}
"""The detail of a driver that says whether it wants lines of a stream. "": all drivers do; others: "wants_logs"."""


class OutputRouting:
    """Names the sources of lines for `LogService`, and passes lines on, including those that the head sends."""

    def __init__(self, head: HeadClient, pool: WorkerPool, processes: ProcessTable) -> None:
        self._head = head
        self._pool = pool
        self._processes = processes
        self._feed = LogFeed()
        head.on(head_messages.ShowLines, lambda said: self.show(*said))

    def origin(self, worker: bytes) -> tuple[int, str] | None:
        """Return the pid of a worker and the class of its actor, None when it is not known (any more)."""
        record = self._pool.workers.get(ProcessId(worker))
        return (record.pid, record.actor) if record is not None else None

    def on_lines(self, worker: bytes, name: str, stream: str, lines: list[str]) -> None:
        """A worker has written lines."""
        record = self._pool.workers.get(ProcessId(worker))
        if record is None:
            return
        job = JobId(record.key[0])
        if self.show(job, record.pid, name, stream, lines) == 0 or job.startswith(DETACHED):
            self._head.send(
                packed(head_messages.LinesWritten(job=job, pid=record.pid, name=name, stream=stream, lines=lines))
            )

    def show(self, job: JobId, pid: int, name: str, stream: str, lines: list[str]) -> int:
        """Show output to the drivers of this node that it concerns, and return how many there are."""
        everybody = job.startswith(DETACHED)
        drivers = [
            connection
            for connection in self._processes.connections.values()
            if connection.info.role == "driver" and (everybody or connection.info.details.get("job") == job)
        ]
        wish = _WISHES.get(stream, "wants_logs")
        wanting = [connection for connection in drivers if not wish or connection.info.details.get(wish, True)]
        self._feed.send(wanting, pid, name, stream, lines)
        return len(drivers)

    def announce(self, text: str) -> None:
        """Show a line about this node to every driver of the session."""
        line = (JobId(DETACHED), os.getpid(), "kernel", "stderr", [text])
        self.show(*line)
        self._head.send(packed(head_messages.LinesWritten(*line)))

    def forget(self, driver: Connection) -> None:
        """A driver left."""
        self._feed.forget(driver)

"""Jobs: one per driver. What a driver brings along for its workers, and whether it still lives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernel.node.worker_pool import WorkerPool
from kernel.runtime.process import Peer
from kernel.transport.connection import Connection
from kernel_spec.ids import JobId, ProcessId

_NOBODY = ProcessId(b"")
_DETACHED = b"detached:"


@dataclass(slots=True)
class Job:
    """One driver's work. `ended` is 0 while it runs (seconds since the epoch)."""

    id: JobId
    driver: ProcessId = _NOBODY
    pid: int = 0
    namespace: str = ""
    cwd: str = ""
    path: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    environment: str = ""
    script: str = ""
    wants_logs: bool = True
    started: float = 0.0
    ended: float = 0.0

    @property
    def is_program(self) -> bool:
        """Whether it is a driver's work, not that of detached actors."""
        return not self.id.startswith(_DETACHED)


class JobTable:
    """Every job of the session: one per driver, and one per namespace for the detached actors in it."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, Job] = {}

    def add(self, peer: Peer, now: float) -> Job:
        """A driver joined."""
        said: Mapping[str, Any] = peer.details
        id = JobId(said.get("job", peer.id))
        job = self.jobs[id] = Job(
            id,
            peer.id,
            peer.pid,
            said.get("namespace", ""),
            said.get("cwd", ""),
            list(said.get("path", ())),
            dict(said.get("variables", {})),
            said.get("environment", ""),
            said.get("script", ""),
            said.get("wants_logs", True),
            now,
        )
        return job

    def detached(self, creator: bytes, namespace: str) -> JobId:
        """Return the job of detached actors of a namespace; their workers get the surroundings of `creator`."""
        id = JobId(_DETACHED + namespace.encode())
        model = self.get(creator)
        self.jobs[id] = Job(
            id,
            namespace=namespace,
            cwd=model.cwd,
            path=model.path,
            variables=model.variables,
            environment=model.environment,
        )
        return id

    def get(self, id: bytes) -> Job:
        """Return a job; one that is not known gets an empty one."""
        return self.jobs.get(JobId(id)) or Job(JobId(id))

    def end(self, driver: ProcessId, now: float) -> Job | None:
        """A driver left."""
        for job in self.jobs.values():
            if job.driver == driver and not job.ended and job.is_program:
                job.ended = now
                return job
        return None

    def of_process(self, peer: Peer, pool: WorkerPool) -> JobId:
        """Return the job a process works for."""
        worker = pool.workers.get(peer.id)
        if worker is not None:
            return JobId(worker.key[0])
        return JobId(peer.details.get("job", b""))

    def listeners(self, job: bytes, connections: Mapping[ProcessId, Connection]) -> list[Connection]:
        """Return the drivers that want the output of a job's workers (every driver, that of detached actors)."""
        detached = job.startswith(_DETACHED)
        found = []
        for known in self.jobs.values():
            if known.wants_logs and not known.ended and known.driver in connections and (detached or known.id == job):
                found.append(connections[known.driver])
        return found

"""Keep a job for each driver: what the driver provides for its workers, and whether it still runs."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import field
from typing import Any

from kernel_processes.head.nodes import ProcessRecord
from kernel_processes.protocol.detached_jobs import DETACHED
from kernel_spec.dataclass import dataclass
from kernel_spec.ids import JobId, ProcessId

_NOBODY = ProcessId(b"")
_NO_JOB = JobId(b"")
KEPT_ENDED = 100
"""The number of ended programs that are remembered, for `kernel status`."""


@dataclass(slots=True)
class JobRecord:
    """Holds the job of one driver, or of detached actors, whose surroundings are those of the driver `creator`.

    `ended` is 0 while the job runs, then seconds since the epoch. `asked` are bundles of resources (quantities) for
    which the cluster is to have room.
    """

    id: JobId
    driver: ProcessId = _NOBODY
    pid: int = 0
    namespace: str = ""
    cwd: str = ""
    path: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    environment: str = ""
    script: str = ""
    started: float = 0.0
    ended: float = 0.0
    creator: JobId = _NO_JOB
    asked: list[Mapping[str, float]] = field(default_factory=list)

    def surroundings(self) -> dict[str, Any]:
        """Return the settings with which a node starts workers of the job."""
        return {"namespace": self.namespace, "cwd": self.cwd, "path": self.path, "variables": self.variables}

    @property
    def is_program(self) -> bool:
        """Whether this is the job of a driver, rather than that of detached actors."""
        return not self.creator


class JobTable:
    """Holds the jobs of the session: one per driver, and one per driver and namespace for its detached actors."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, JobRecord] = {}

    def add(self, driver: ProcessRecord, now: float) -> JobRecord:
        """A driver joined."""
        said: Mapping[str, Any] = driver.details
        job = self.jobs[driver.job] = JobRecord(
            driver.job,
            driver.id,
            driver.pid,
            said.get("namespace", ""),
            said.get("cwd", ""),
            list(said.get("path", ())),
            dict(said.get("variables", {})),
            said.get("environment", ""),
            said.get("script", ""),
            now,
        )
        return job

    def detached(self, creator: bytes, namespace: str) -> JobId:
        """Return the job of detached actors of a namespace, whose workers have the surroundings of `creator`."""
        model = self.get(creator)
        program = model.creator or model.id
        id = JobId(DETACHED + program + b":" + namespace.encode())
        if id not in self.jobs:
            self.jobs[id] = JobRecord(
                id,
                namespace=namespace,
                cwd=model.cwd,
                path=model.path,
                variables=model.variables,
                environment=model.environment,
                creator=program,
            )
        return id

    def forget(self, used: Container[JobId]) -> list[JobId]:
        """Forget all but the latest programs that have ended, and jobs of detached actors that are not `used`.

        Return the forgotten ones.
        """
        programs = sorted(
            (job for job in self.jobs.values() if job.ended and job.is_program), key=lambda job: job.ended
        )
        unused = [job for job in self.jobs.values() if not job.is_program and job.id not in used]
        forgotten = [job.id for job in (*programs[:-KEPT_ENDED], *unused)]
        for id in forgotten:
            del self.jobs[id]
        return forgotten

    def get(self, id: bytes) -> JobRecord:
        """Return a job; one that is not known gets an empty one."""
        return self.jobs.get(JobId(id)) or JobRecord(JobId(id))

    def end(self, driver: ProcessId, now: float) -> JobRecord | None:
        """A driver left."""
        for job in self.jobs.values():
            if job.driver == driver and not job.ended:
                job.ended = now
                return job
        return None

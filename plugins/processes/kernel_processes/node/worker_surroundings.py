"""Give a new worker its surroundings: its program's directories and variables, and its runtime environment."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any

from kernel_processes.node.head_client import HeadClient
from kernel_processes.node.worker_environments import WorkerEnvironments
from kernel_processes.protocol import head_messages
from kernel_spec.environments import WorkerStart
from kernel_spec.errors import RuntimeEnvError
from kernel_spec.ids import JobId, ProcessId

_UNKNOWN: Mapping[str, Any] = {"namespace": "", "cwd": "", "path": (), "variables": {}}
_OF_DRIVERS = ("namespace", "cwd", "path", "variables")


class WorkerSurroundings:
    """Knows the jobs and the environments that workers of this node may have. Runs in the agent's loop."""

    def __init__(self, head: HeadClient, environments: WorkerEnvironments) -> None:
        self._environments = environments
        self._jobs: dict[JobId, Mapping[str, Any]] = {}
        """The surroundings of each job's workers (see `Job.surroundings`)."""
        head.on(head_messages.DescribeJob, self._describe_job)
        head.on(head_messages.DescribeEnvironment, self._describe_environment)
        head.on(head_messages.PackagePiece, lambda said: environments.on_piece(*said))

    def driver_joined(self, job: JobId, said: Mapping[str, Any]) -> None:
        """A driver of this node has said what workers of its job need."""
        self._jobs.setdefault(job, {name: said[name] for name in _OF_DRIVERS})

    def job_ended(self, job: JobId) -> None:
        """No worker of this job is started any more."""
        self._jobs.pop(job, None)

    def prepare(self, environment: str, then: Callable[[WorkerStart | RuntimeEnvError], None]) -> None:
        """Call `then` with what a worker is given when all of an environment is here, or with why it can't be."""
        self._environments.make_ready(environment, then)

    def of(self, worker: ProcessId, key: tuple[bytes, str], environment: WorkerStart) -> dict[str, Any]:
        """Return what the template needs to know to fork a worker of a job and an environment (`key`), as prepared."""
        job = self._jobs.get(JobId(key[0]), _UNKNOWN)
        return {
            "id": worker,
            "job": key[0],
            "variables": job["variables"],
            "env_vars": dict(environment.variables),
            "cwd": environment.directory,
            "program_cwd": job["cwd"],
            "path": [*environment.paths, *job["path"]],
            "python": environment.python,
            "modules": environment.modules,
            "namespace": job["namespace"],
        }

    def close(self) -> None:
        """Fetch and build nothing more."""
        self._environments.close()

    def _describe_job(self, said: head_messages.DescribeJob) -> None:
        self._jobs[said.job] = pickle.loads(said.surroundings)

    def _describe_environment(self, said: head_messages.DescribeEnvironment) -> None:
        self._environments.learn(said.key, pickle.loads(said.description))

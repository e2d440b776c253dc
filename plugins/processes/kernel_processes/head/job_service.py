"""Keep the jobs on the head: the settings of drivers for their workers, their runtime environments, and their end."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Mapping
from typing import Any

from kernel_engine.messages.named_messages import packed
from kernel_processes.head.actors import ActorTable
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.environments import Environments
from kernel_processes.head.job_table import JobRecord, JobTable
from kernel_processes.head.journal import Journal
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import ProcessRecord
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.pickled import Pickled
from kernel_spec.errors import OptionError
from kernel_spec.ids import JobId, ProcessId
from kernel_spec.resources import amounts


class JobService:
    """Passes events to the table of jobs and carries out what follows. Runs in the head's loop.

    A job of detached actors is kept for as long as one of its `actors` lives. `on_asked` is called when a program has
    asked for resources in advance.
    """

    def __init__(
        self, dispatcher: MessageDispatcher, cluster: ClusterTable, journal: Journal, actors: ActorTable
    ) -> None:
        self._cluster = cluster
        self._journal = journal
        self._actors = actors
        self.table = JobTable()
        self.on_asked: Callable[[], None] = lambda: None
        self.environments = Environments(journal.environment)
        dispatcher.methods |= {
            "jobs": lambda caller: Pickled.of(self.rows()),
            "request_resources": self._request_resources,
            "add_environment": self._add_environment,
            "own_environment": lambda caller: self.environments.description(self.environment_for(caller, None)),
        }

    # -- life ------------------------------------------------------------------------------------------------------

    def driver_joined(self, driver: ProcessRecord) -> None:
        """A driver is there, and with it its job, unless an earlier head knew that."""
        if driver.job not in self.table.jobs:
            self._journal.job(self.table.add(driver, time.time()))

    def detached(self, creator: bytes, namespace: str) -> JobId:
        """Return the job of detached actors of a namespace, whose workers have the surroundings of `creator`."""
        id = self.table.detached(creator, namespace)
        self._journal.job(self.table.get(id))
        return id

    def process_left(self, caller: ProcessRecord) -> None:
        """A process is gone, and with a driver its job."""
        if caller.role == "driver":
            self.end(caller.id)

    def end(self, driver: ProcessId) -> JobRecord | None:
        """A driver is gone: end its job on every node, and return it; None if it had no running job."""
        job = self.table.end(driver, time.time())
        if job is not None:
            self._journal.job(job)
            for node in self._cluster.living_nodes():
                node.send(packed(head_messages.JobEnded(job=job.id)))
        return job

    def running(self) -> set[JobId]:
        """Return the jobs of the programs that run."""
        return {job.id for job in self.table.jobs.values() if job.is_program and not job.ended}

    def forget_ended(self) -> None:
        """Forget jobs that have ended long ago, and those of detached actors that are all gone."""
        working = {caller.job for caller in self._cluster.callers.values() if caller.role == "worker"}
        for id in self.table.forget(self._actors.living_jobs() | working):
            self._journal.forget_job(id)

    # -- resources that are asked for in advance ---------------------------------------------------------------------

    def _request_resources(self, caller: ProcessRecord, bundles: list[Mapping[str, float]]) -> None:
        """Have the cluster be at least as large as these bundles need, for as long as the caller's program runs.

        Another call takes the place of the one before. Raises OptionError for a bundle that is none, and for a caller
        that belongs to no program.
        """
        if caller.job not in self.table.jobs:
            raise OptionError("only a program, and what runs for it, can ask for resources in advance")
        for bundle in bundles:
            try:
                amounts(bundle)
            except (TypeError, ValueError, AttributeError) as error:
                raise OptionError(f"{bundle!r} can't be asked for: {error}") from None
        job = self.table.get(caller.job)
        job.asked = [dict(bundle) for bundle in bundles]
        self._journal.job(job)
        self.on_asked()

    def asked(self) -> list[dict[str, Any]]:
        """Return a row for each running job that has asked for resources in advance."""
        asking = [job for job in self.table.jobs.values() if job.asked and not job.ended]
        return [{"job_id": job.id.hex(), "bundles": job.asked} for job in asking]

    # -- after the death of a head ---------------------------------------------------------------------------------

    def restore(self) -> None:
        """Read what an earlier head wrote down of environments and jobs."""
        for description in self._journal.environments():
            self.environments.key_of(description)
        for job in self._journal.jobs():
            self.table.jobs[job.id] = job

    def end_lost(self) -> list[JobId]:
        """End the jobs of programs that did not come back; return them."""
        drivers = {id: self.table.get(id).driver for id in self.running()}
        lost = [id for id, driver in drivers.items() if driver not in self._cluster.callers]
        for id in lost:
            self.end(drivers[id])
        return lost

    # -- environments ----------------------------------------------------------------------------------------------

    def environment_for(self, caller: ProcessRecord, asked: Mapping[str, Any] | None) -> str:
        """Return the key of the environment that a process asks for, within the process's own environment."""
        own = self.table.get(caller.job).environment if caller.role == "driver" else caller.environment
        return self.environments.key_within(own, asked)

    def _add_environment(self, caller: ProcessRecord, description: bytes) -> str:
        """Make an environment the job's own; return its key."""
        key = self.environments.key_of(pickle.loads(description))
        job = self.table.get(caller.job)
        job.environment = key
        self._journal.job(job)
        return key

    # -- questions -------------------------------------------------------------------------------------------------

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per program."""
        callers = self._cluster.callers
        return [
            {
                "job_id": job.id.hex(),
                "node_id": callers[job.driver].node.id.hex() if job.driver in callers else "",
                "outside": _host_outside(callers.get(job.driver)),
                "pid": job.pid,
                "namespace": job.namespace,
                "script": job.script,
                "started": job.started,
                "ended": job.ended,
            }
            for job in self.table.jobs.values()
            if job.is_program
        ]


def _host_outside(driver: ProcessRecord | None) -> str:
    """Return the host of a living remote driver, "" for other drivers."""
    return driver.node.host if driver is not None and driver.node.client else ""

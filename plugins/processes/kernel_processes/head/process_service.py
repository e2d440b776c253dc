"""Processes on the head: they join and leave, and much ends with a driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernel_engine.messages.named_messages import packed
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.driver_output import DriverOutput
from kernel_processes.head.group_service import GroupService
from kernel_processes.head.job_service import JobService
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import NodeRecord, ProcessRecord
from kernel_processes.head.observation import Observation
from kernel_processes.protocol import head_messages
from kernel_spec import observers
from kernel_spec.ids import ProcessId


class ProcessService:
    """Keeps the processes of `cluster`. Runs in the head's loop.

    Each of `leavers` is called with a process that is gone, in order, to let go of what that held, waited for and
    owned. `on_starter_left` is called when the program that started the session is gone.
    """

    def __init__(
        self,
        dispatcher: MessageDispatcher,
        cluster: ClusterTable,
        jobs: JobService,
        groups: GroupService,
        output: DriverOutput,
        observation: Observation,
        leavers: Sequence[Callable[[ProcessRecord], None]],
        on_starter_left: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._jobs = jobs
        self._groups = groups
        self._output = output
        self._observation = observation
        self._leavers = leavers
        self._on_starter_left = on_starter_left
        dispatcher.on(head_messages.ProcessJoined, self._joined)
        dispatcher.on(head_messages.ProcessLeft, lambda node, said: self._left(node, said.process))

    def _joined(self, node: NodeRecord, said: head_messages.ProcessJoined) -> None:
        callers = self._cluster.callers
        if said.process in callers:
            return  # told once more, after the death of a head
        caller = callers[said.process] = ProcessRecord(*said, node)
        if caller.role == "driver":
            self._jobs.driver_joined(caller)
            self._output.driver_joined(caller)
        elif caller.role == "worker":
            self._observation.happened(observers.WORKER, observers.ALIVE, caller.id, {"pid": caller.pid})

    def _left(self, node: NodeRecord, id: ProcessId) -> None:
        for other in self._cluster.living_nodes():
            if other is not node:
                other.send(packed(head_messages.ProcessesGone(processes=[id], place="")))
        self.forget(id)

    def forget(self, id: ProcessId) -> None:
        """A process is gone, and with it what it held, waited for and owned."""
        caller = self._cluster.callers.pop(id, None)
        if caller is None:
            return
        caller.closed = True
        for leave in self._leavers:
            leave(caller)
        if caller.role == "driver":
            self.end_job(id)
            if caller.details.get("starter"):
                self._on_starter_left()

    def end_job(self, driver: ProcessId) -> None:
        """A driver is gone, and with it its job."""
        job = self._jobs.end(driver)
        if job is not None:
            self._groups.job_ended(job.id)
            self._jobs.forget_ended()

"""Keep the processes of a session as they join and leave, and end a driver's job with the driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kernel_engine.messages.named_messages import packed
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.driver_output import DriverOutput
from kernel_processes.head.job_service import JobService
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import NodeRecord, ProcessRecord
from kernel_processes.head.observation import Observation
from kernel_processes.protocol import head_messages
from kernel_spec import observers
from kernel_spec.ids import ProcessId


class ProcessFollower(Protocol):
    """Keeps state for processes in a part of the head, and is told when one leaves."""

    def process_left(self, caller: ProcessRecord) -> None:
        """Release what a process that is gone held, waited for and owned."""


class ProcessService:
    """Keeps the processes of `cluster`. Runs in the head's loop.

    When a process is gone, `process_left` of each of `followers` is called, in order.
    """

    def __init__(
        self,
        dispatcher: MessageDispatcher,
        cluster: ClusterTable,
        jobs: JobService,
        output: DriverOutput,
        observation: Observation,
        followers: Sequence[ProcessFollower],
    ) -> None:
        self._cluster = cluster
        self._jobs = jobs
        self._output = output
        self._observation = observation
        self._followers = followers
        dispatcher.on(head_messages.ProcessJoined, self._joined)
        dispatcher.on(head_messages.ProcessLeft, lambda node, said: self._left(node, said.process))

    def _joined(self, node: NodeRecord, said: head_messages.ProcessJoined) -> None:
        callers = self._cluster.callers
        if said.process in callers:
            return  # An agent reports it a second time after a head's death.
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
        for follower in self._followers:
            follower.process_left(caller)
        if caller.role == "driver":
            self._jobs.forget_ended()

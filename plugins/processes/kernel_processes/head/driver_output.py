"""Lines that the programs of a session show: output of workers, failures, and faults of plugins."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence

from kernel.logs import Logger
from kernel_engine.messages.named_messages import packed
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.deferred import Deferred
from kernel_processes.head.gathering import PATIENCE_SECONDS, Gathering
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import NodeRecord, ProcessRecord
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.detached_jobs import DETACHED
from kernel_spec.ids import JobId

FAULTS_KEPT = 20
_SOON = 0.2
"""Seconds for workers to report failures when a program ends. A worker that is busy in C code may take longer."""


class DriverOutput:
    """Passes lines on to the nodes of the drivers that they concern. Runs in the head's loop."""

    def __init__(self, dispatcher: MessageDispatcher, cluster: ClusterTable, gathering: Gathering, log: Logger) -> None:
        self._cluster = cluster
        self._gathering = gathering
        self._log = log
        self._faults: deque[str] = deque(maxlen=FAULTS_KEPT)
        """Faults of plugins; they are shown to programs that join later, too."""
        dispatcher.methods["show_output"] = self._show_output
        dispatcher.on(head_messages.LinesWritten, self._written)
        dispatcher.on(head_messages.PluginFault, lambda node, said: self.plugin_fault(said.text))

    def show(self, caller: ProcessRecord, name: str, stream: str, text: str) -> None:
        """Let the drivers of a process's job show one text; `name` is its source."""
        message = packed(
            head_messages.ShowLines(job=caller.job, pid=caller.pid, name=name, stream=stream, lines=[text])
        )
        for node in self._cluster.nodes_of_drivers(caller.job):
            node.send(message)

    def plugin_fault(self, text: str) -> None:
        """Report a plugin's fault to the log and to every program, including those that join later."""
        self._log.warning(text)
        self._faults.append(text)
        for node in self._cluster.nodes_of_drivers(JobId(DETACHED)):
            _send(node, JobId(DETACHED), text.splitlines())

    def driver_joined(self, driver: ProcessRecord) -> None:
        """Report earlier faults of plugins to a program that has just joined."""
        for text in self._faults:
            _send(driver.node, driver.job, text.splitlines())

    def _show_output(self, caller: ProcessRecord, seconds: float = PATIENCE_SECONDS) -> Deferred:
        """Send all that workers have written, and failures they know of, to whom it concerns, before the answer.

        That is which nodes have not done so within `seconds`.
        """
        deferred, gathering = Deferred(), self._gathering

        def show(answers: object) -> None:
            gathering.of_nodes("drain_output", gathering.silent_nodes, seconds=seconds).when_done(deferred.set)

        callers = self._cluster.callers.values()
        workers = [one for one in callers if one.role == "worker" and one.job == caller.job]
        told = gathering.of_processes(workers, "tell_failures", lambda answers: None, seconds=_SOON)
        told.when_done(show)
        return deferred

    def _written(self, node: NodeRecord, said: head_messages.LinesWritten) -> None:
        shown = packed(head_messages.ShowLines(*said))
        for other in self._cluster.nodes_of_drivers(said.job):
            if other is not node:
                other.send(shown)


def _send(node: NodeRecord, job: JobId, lines: Sequence[str]) -> None:
    node.send(
        packed(head_messages.ShowLines(job=job, pid=os.getpid(), name="kernel", stream="stderr", lines=list(lines)))
    )

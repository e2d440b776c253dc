"""Collect the metrics of all processes on request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, number_of, unpacked
from kernel_engine.metrics.session_metrics import SessionNumbers, session_snapshot
from kernel_processes.head.actors import ActorTable
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.collected_metrics import CollectedMetrics
from kernel_processes.head.deferred import Deferred
from kernel_processes.head.gathering import Gathering
from kernel_processes.head.lease_manager import LeaseManager
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import ProcessRecord
from kernel_processes.head.usage import sum_of_amounts, sum_of_stores
from kernel_processes.protocol.pickled import Pickled
from kernel_spec.ids import NodeId, ProcessId
from kernel_spec.metrics import MetricsSnapshot


class MetricsService:
    """Asks every node and process for its metrics, and keeps the latest of each. Runs in the head's loop."""

    def __init__(
        self,
        dispatcher: MessageDispatcher,
        cluster: ClusterTable,
        gathering: Gathering,
        leases: LeaseManager,
        actors: ActorTable,
    ) -> None:
        self._cluster = cluster
        self._gathering = gathering
        self._leases = leases
        self._actors = actors
        self._collected = CollectedMetrics()
        dispatcher.handlers[number_of(op.LastMetrics)] = self._on_last
        dispatcher.methods["metrics"] = self._metrics

    def process_left(self, caller: ProcessRecord) -> None:
        """A process is gone: its last metrics are kept."""
        self._collected.ended(caller.id)

    def told(self) -> Iterable[MetricsSnapshot]:
        """Return the latest metrics of all processes, including those that have ended."""
        return self._collected.load()

    def _on_last(self, caller: ProcessRecord, message: Message) -> None:
        self._collected.ending(caller.id, unpacked(op.LastMetrics, message).snapshot)

    def _metrics(self, caller: ProcessRecord) -> Deferred:
        """Return snapshots that add up to the metrics of the session."""
        deferred = Deferred()
        self.collect(lambda session: deferred.set(Pickled.of([session, *self._collected.snapshots()])))
        return deferred

    def collect(self, then: Callable[[MetricsSnapshot], None]) -> None:
        """Ask all processes for what they counted, then call `then` with the metrics of the session as a whole.

        For a process that does not answer in time, its latest metrics are used.
        """

        def with_nodes(reports: dict[NodeId, Any]) -> None:
            def with_processes(answers: dict[ProcessId, Any]) -> None:
                for process, answer in answers.items():
                    if answer is not None and process in self._cluster.callers:
                        self._collected.answered(process, answer)
                then(session_snapshot(self._numbers(reports, len(self._gathering.silent_processes(answers)))))

            self._gathering.of_user_processes("metrics", with_processes)

        self._gathering.of_nodes("report", with_nodes, False)

    def _numbers(self, reports: dict[NodeId, Any], silent: int) -> SessionNumbers:
        snapshot = self._leases.scheduler.snapshot()
        known = [report for report in reports.values() if report is not None]
        return SessionNumbers(
            nodes=[node.state for node in self._cluster.working_nodes()],
            workers=[row["state"] for report in known for row in report["workers"]],
            actors=[record.state for record in self._actors.actors.values()],
            stores=sum_of_stores(self._gathering.from_working_nodes(reports)),
            total=sum_of_amounts(snapshot.total.values()),
            available=sum_of_amounts(snapshot.available.values()),
            waiting=len(snapshot.waiting),
            leases=len(self._leases.leases),
            silent=silent,
        )

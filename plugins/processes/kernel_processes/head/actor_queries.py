"""Answer questions about actors: where one is, what it waits for, and a row for each."""

from __future__ import annotations

from typing import Any

from kernel_processes.head import actor_records as control
from kernel_processes.head.actors import ActorTable
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.lease_manager import LeaseManager
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.protocol.pickled import Pickled
from kernel_spec.ids import ActorId, ProcessId
from kernel_spec.resources import quantities


class ActorQueries:
    """Answers questions about the actors in `table`; `leases` explains what they wait for. Runs in the head's loop."""

    def __init__(
        self, dispatcher: MessageDispatcher, cluster: ClusterTable, table: ActorTable, leases: LeaseManager
    ) -> None:
        self._callers = cluster.callers
        self._leases = leases
        self.table = table
        dispatcher.methods |= {
            "named_actors": lambda caller, namespace: self._named(namespace),
            "place_of_actor": lambda caller, actor: self._place(actor),
            "explain_actor": lambda caller, actor: self.explain(actor),
            "actors": lambda caller, dead=True: Pickled.of(self.rows(dead)),
        }

    def _named(self, namespace: str | None) -> list[dict[str, str]]:
        return [{"namespace": ns, "name": name} for ns, name in self.table.names if namespace in (None, ns)]

    def _place(self, actor: ActorId) -> tuple[ProcessId, str] | None:
        """Return the process of an actor and where it is reached, also while its constructor runs."""
        record = self.table.actors.get(actor)
        worker = self._callers.get(record.worker) if record is not None else None
        return (worker.id, worker.address) if worker is not None else None

    def explain(self, actor: ActorId) -> str:
        """Return a sentence that says what an actor is waiting for."""
        record = self.table.actors.get(actor)
        if record is None:
            return "no such actor is known (any more)"
        if record.state in (control.PENDING, control.RESTARTING) and record.lease is not None:
            return f"actor {record.label} is {record.state}: {self._leases.explain(record.lease)}"
        if record.state == control.RESTARTING:
            return f"actor {record.label} rests before it is restarted: {record.cause}"
        if record.state == control.PENDING:
            return f"actor {record.label} waits for the arguments of its constructor"
        if record.state == control.STARTING:
            return f"actor {record.label} is in its constructor on worker {record.worker.hex()[:8]}"
        if record.state == control.DEAD:
            return f"actor {record.label} is dead: {record.cause}"
        worker = self._callers.get(record.worker)
        return f"actor {record.label} is alive, pid {worker.pid if worker is not None else 0}"

    def rows(self, dead: bool = True) -> list[dict[str, Any]]:
        """Return a row per actor, with those of dead actors only if `dead`."""
        rows = []
        for record in self.table.actors.values():
            if record.state == control.DEAD and not dead:
                continue
            worker = self._callers.get(record.worker)
            rows.append(
                {
                    "actor_id": record.id.hex(),
                    "class_name": record.description["class_name"],
                    "name": record.description["name"],
                    "namespace": record.description["namespace"],
                    "state": record.state,
                    "pid": worker.pid if worker is not None else 0,
                    "node_id": worker.node.id.hex() if worker is not None else "",
                    "worker_id": record.worker.hex(),
                    "workers": [worker.hex() for worker in record.workers],
                    "restarts": record.attempt,
                    "detached": record.description["detached"],
                    "job_id": record.job.hex(),
                    "cause": record.cause,
                    "required_resources": quantities(record.description["wanted"]),
                    "placement_group_id": (record.description["group"] or {}).get("group"),
                }
            )
        return rows

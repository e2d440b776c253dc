"""Answer questions about the session: its status, its job, and what becomes of tasks."""

from __future__ import annotations

import os
import pickle
from collections import deque
from typing import Any

from kernel_engine.metrics.process_metrics import process_snapshot
from kernel_engine.metrics.session_metrics import SessionNumbers, session_snapshot
from kernel_engine.one_process.transport import InProcessStore
from kernel_engine.tasks.open_tasks import open_tasks
from kernel_engine.tasks.tasks import TaskTable
from kernel_engine.tasks.tracing import CallTrace
from kernel_local_mode.answers.actors import ActorAnswers
from kernel_local_mode.answers.facts import SessionFacts
from kernel_local_mode.answers.groups import GroupAnswers
from kernel_local_mode.answers.node import NodeAnswers
from kernel_local_mode.resources import LocalResources
from kernel_spec.metrics import MetricsSnapshot
from kernel_spec.resources import quantities

KEPT_FAILURES = 1000


class SessionAnswers:
    """Assembles the status from the answers of the other parts."""

    def __init__(
        self,
        facts: SessionFacts,
        tasks: TaskTable,
        trace: CallTrace,
        store: InProcessStore,
        resources: LocalResources,
        node: NodeAnswers,
        actors: ActorAnswers,
        groups: GroupAnswers,
    ) -> None:
        self._facts = facts
        self._tasks = tasks
        self._lock = tasks.process.lock
        self._trace = trace
        self._store = store
        self._resources = resources
        self._node = node
        self._actors = actors
        self._groups = groups
        self._failures: deque[dict[str, Any]] = deque(maxlen=KEPT_FAILURES)
        tasks.failures.send = self._note_failure

    def failures(self, all_jobs: bool) -> list[dict[str, Any]]:
        """Return the failures of results that were never asked for."""
        return list(self._failures)

    def _note_failure(self, row: dict[str, Any]) -> None:
        if "left_out" not in row:
            where = {"job": bytes(self._facts.job), "pid": os.getpid(), "node": self._facts.node.hex()}
            self._failures.append({**row, **where})

    def status(self) -> dict[str, Any]:
        """Return what `kernel status` shows."""
        resources = self._resources
        with self._lock:
            waiting = [
                {
                    "name": request.name,
                    "wanted": quantities(request.wish.wanted),
                    "reason": resources.infeasible(request.wish) or resources.busy(request.wish),
                }
                for request in resources.waiting
            ]
        return {
            "session": self._facts.directory,
            "node": self._facts.node.hex(),
            "pid": os.getpid(),
            "started": self._facts.started,
            "scheduler": "none (local mode)",
            "total": self._node.cluster_resources(),
            "available": self._node.available_resources(),
            "waiting": waiting[:20],
            "waiting_count": len(waiting),
            "workers": self.workers(),
            "actors": self._actors.actors(),
            "placement_groups": self._groups.placement_groups(),
            "jobs": self.jobs(),
            "services": {},
            "store": {"objects": len(self._store.values), "used": sum(map(len, self._store.values.values()))},
            "problems": {},
        }

    def metrics(self) -> list[MetricsSnapshot]:
        """Return what has been counted, and what there is."""
        resources, store = self._resources, self._store.values
        with self._lock:
            session = SessionNumbers(
                nodes=["ALIVE"],
                workers=[],
                actors=[row["state"] for row in self._actors.actors()],
                stores={"objects": len(store), "used": sum(map(len, store.values()))},
                total=self._node.cluster_resources(),
                available=self._node.available_resources(),
                waiting=len(resources.waiting),
                leases=0,
                silent=0,
            )
            tasks = self._tasks
            process = process_snapshot(self._facts.process.hex(), len(tasks.running), tasks.failed)
        return [session_snapshot(session), process]

    def timeline(self) -> dict[str, Any]:
        """Return the traced calls of this process, in the form that `timeline_events.events_of` reads."""
        return {"told": [pickle.dumps(self._trace.events())], "silent": {}}

    def tasks(self) -> dict[str, Any]:
        """Return the tasks and calls of this process, in the form that `kernel.runtime.task_rows.all_tasks` reads."""
        place = {
            "worker_id": self._facts.process.hex(),
            "worker_pid": os.getpid(),
            "node_id": self._facts.node.hex(),
            "job_id": self._facts.job.hex(),
        }
        with self._lock:
            waiting = open_tasks(list(self._tasks.ownership.objects.values()), self._tasks.running)
        ended = [(place, self._trace.events())]
        return {"ended": ended, "waiting": [(place, waiting)], "workers": {}, "silent": {}}

    def workers(self) -> list[dict[str, Any]]:
        """Return nothing: the only worker is this process."""
        return []

    def jobs(self) -> list[dict[str, Any]]:
        """Return the one job."""
        return [
            {
                "job_id": self._facts.job.hex(),
                "pid": os.getpid(),
                "namespace": self._facts.namespace,
                "script": "",
                "started": self._facts.started,
                "ended": None,
            }
        ]

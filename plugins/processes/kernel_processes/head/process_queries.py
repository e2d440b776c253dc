"""Answer questions by asking every process: about references, calls, stacks."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from kernel.runtime.task_rows import NO_PROCESS
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, number_of, unpacked
from kernel_processes.head.actors import ActorTable
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.deferred import Deferred
from kernel_processes.head.gathering import Gathering
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import ProcessRecord
from kernel_processes.head.observation import Observation
from kernel_processes.head.usage import memory_of, sum_of_stores
from kernel_processes.protocol.pickled import Pickled
from kernel_spec.ids import NodeId, ProcessId

PAST_CALLS_BYTES = 3 << 20
"""Bytes of pickled calls of ended workers that the timeline keeps: some 25,000 calls."""


class ProcessQueries:
    """Answers questions by asking the processes. Runs in the head's loop.

    Answers that hold more than plain values are `Pickled`.
    """

    def __init__(
        self,
        dispatcher: MessageDispatcher,
        cluster: ClusterTable,
        gathering: Gathering,
        actors: ActorTable,
        observation: Observation,
    ) -> None:
        self._cluster = cluster
        self._callers = cluster.callers
        self._gathering = gathering
        self._ask = gathering.of_user_processes
        self._silent = gathering.silent_processes
        self._actors = actors
        self._observation = observation
        self._past_calls: deque[bytes] = deque()
        """For each worker its latest calls, pickled: as objects they would take eight times the memory."""
        self._past_calls_bytes = 0
        dispatcher.handlers[number_of(op.LastCalls)] = self._on_last_calls
        dispatcher.methods |= {
            "explain_worker": self._explain_worker,
            "memory": self._memory,
            "timeline": self._timeline,
            "tasks": self._tasks,
            "stacks": self._stacks,
        }

    def _on_last_calls(self, caller: ProcessRecord, message: Message) -> None:
        said = unpacked(op.LastCalls, message)
        self._past_calls.append(bytes(said.events))
        self._past_calls_bytes += len(said.events)
        while self._past_calls_bytes > PAST_CALLS_BYTES:
            self._past_calls_bytes -= len(self._past_calls.popleft())
        self._observation.note_calls(caller.id, said.new)

    # -- questions -------------------------------------------------------------------------------------------------

    def _explain_worker(self, caller: ProcessRecord, worker: ProcessId) -> str:
        """Return pid and node of a worker in words."""
        found = self._callers.get(worker)
        if found is None:
            return "that worker has ended"
        return f"pid {found.pid} on node {found.node.id.hex()[:8]} ({found.node.host})"

    def _memory(self, caller: ProcessRecord, limit: int = 0) -> Deferred:
        """Return the stores' objects and every process's references, of each process the `limit` largest (0: all)."""
        deferred = Deferred()

        def with_nodes(reports: dict[NodeId, Any]) -> None:
            known = [report for report in reports.values() if report is not None]
            names = {row["worker_id"]: row["name"] for report in known for row in report["workers"]}
            held = {
                (node, pid): size for node, report in reports.items() if report for pid, size in report["held"].items()
            }

            def with_processes(answers: dict[ProcessId, Any]) -> None:
                processes, silent = [], []
                for id, answer in answers.items():
                    process = asked[id]
                    if answer is None:
                        silent.append(process.pid)
                        continue
                    count, size, rows = answer
                    processes.append(
                        {
                            "process": id,
                            "role": process.role,
                            "pid": process.pid,
                            "name": names.get(id.hex()) or str(process.details.get("script", "")),
                            "held": held.get((process.node.id, process.pid), 0),
                            "count": count,
                            "bytes": size,
                            "rows": Pickled(rows),
                        }
                    )
                working = self._gathering.from_working_nodes(reports)
                usage = sum_of_stores(working)
                stored = [row for report in known for row in report["stored"]]
                found = {"usage": usage, "stored": stored, "processes": processes, "silent": silent}
                found["silent_nodes"] = self._gathering.silent_nodes(reports)
                deferred.set(Pickled.of({**found, "memory": memory_of(working)}))

            asked = {process.id: process for process in self._cluster.user_processes()}
            self._ask("references", with_processes, limit)

        self._gathering.of_nodes("report", with_nodes, True)
        return deferred

    def _timeline(self, caller: ProcessRecord) -> Deferred:
        """Return the calls of each process as `told`, for `timeline_events.events_of`, and `silent` processes.

        The calls stay pickled: a hundred thousand unpickled events would block the loop and fragment the agent's
        memory.
        """

        def put_together(answers: dict[ProcessId, Any]) -> Pickled:
            told = [*self._past_calls, *filter(None, answers.values())]
            return Pickled.of({"told": told, "silent": self._silent(answers)})

        return self._ask("trace", put_together)

    def _tasks(self, caller: ProcessRecord) -> Deferred:
        """Return the tasks and calls of all processes, for `kernel.runtime.task_rows.all_tasks`, and `silent` ones.

        They stay pickled, as for the timeline; the caller makes the rows.
        """
        deferred = Deferred()

        def with_ended(ended: dict[ProcessId, Any]) -> None:
            told = [(NO_PROCESS, Pickled(data)) for data in self._past_calls]
            told += [(self._place(id), Pickled(data)) for id, data in ended.items() if data]
            silent = self._silent(ended)

            def with_open(answers: dict[ProcessId, Any]) -> None:
                waiting = [(self._place(id), Pickled(data)) for id, data in answers.items() if data]
                workers = {id.hex(): self._place(id) for id in self._callers}
                found = {"ended": told, "waiting": waiting, "workers": workers}
                deferred.set(Pickled.of({**found, "silent": {**silent, **self._silent(answers)}}))

            self._ask("open_tasks", with_open)

        self._ask("trace", with_ended)
        return deferred

    def _place(self, id: ProcessId) -> Mapping[str, Any]:
        process = self._callers.get(id)
        if process is None:
            return NO_PROCESS
        where = {"worker_id": id.hex(), "worker_pid": process.pid, "node_id": process.node.id.hex()}
        actor = self._actors.actor_of(id)
        return {**where, "job_id": process.job.hex(), "actor_id": actor.hex() if actor else None}

    def _stacks(self, caller: ProcessRecord) -> Deferred:
        """Return the Python stacks of every process that answers, by node and pid (see `runtime.stacks`)."""

        def put_together(answers: dict[ProcessId, Any]) -> Pickled:
            found = {}
            for process, threads in answers.items():
                there = self._callers.get(process)
                if there is not None and threads:
                    found[there.node.id.hex(), there.pid] = threads
            return Pickled.of(found)

        return self._ask("stacks", put_together)

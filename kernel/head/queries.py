"""What the head answers when asked: nodes, resources, memory, workers, jobs, key-value, explanations."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kernel.head.deferred import Deferred
from kernel.head.node_rows import node_rows
from kernel.head.nodes import Caller
from kernel.head.value_limit import check_size
from kernel.protocol import head_messages
from kernel.protocol import process_messages as op
from kernel.protocol.named_messages import number_of, packed, unpacked
from kernel.protocol.pickled import Pickled
from kernel.protocol.replies import outcome_of
from kernel.protocol.task_rows import NO_PROCESS
from kernel.transport.connection import Message
from kernel_spec.errors import OptionError
from kernel_spec.ids import LeaseId, NodeId, ObjectId, ProcessId, task_of
from kernel_spec.resources import quantities
from kernel_spec.scheduling import ResourceChanged

if TYPE_CHECKING:
    from kernel.head.head import Head

PAST_CALLS_BYTES = 3 << 20
"""How much the timeline remembers of the calls of workers that have ended, pickled: some 25,000 calls."""
PATIENCE_SECONDS = 2.0
"""How long everybody together may take to answer; who does not is left out."""
_SOON = 0.2
"""How long workers may take to tell of failures when a program ends: one that is busy in C code is not waited for."""


def install(head: Head) -> None:
    """Let the head answer these."""
    answers = Answers(head)
    names = [name for name in dir(answers) if not name.startswith("_")]
    head.methods |= {name: getattr(answers, name) for name in names}


class Answers:
    """Each public method is a question a process may ask; answers that hold more than plain values are `Pickled`."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._past_calls: deque[bytes] = deque()
        """For each worker its latest calls, pickled: as objects they would take eight times the memory."""
        self._past_calls_bytes = 0
        head.handlers[number_of(op.LastCalls)] = self._on_last_calls

    # -- the session -----------------------------------------------------------------------------------------------

    def nodes(self, caller: Caller) -> Pickled:
        """Return a row per node."""
        return Pickled.of(node_rows(self._head))

    def cluster_resources(self, caller: Caller) -> Pickled:
        """Return the totals."""
        snapshot = self._head.lease_manager.scheduler.snapshot()
        return Pickled.of(_sum(snapshot.total.values()))

    def available_resources(self, caller: Caller) -> Pickled:
        """Return what is free; a resource of which nothing is free stays in the answer, as zero."""
        snapshot = self._head.lease_manager.scheduler.snapshot()
        free = _sum(snapshot.available.values())
        return Pickled.of({name: max(0.0, free.get(name, 0.0)) for name in _sum(snapshot.total.values())})

    def set_resource(self, caller: Caller, name: str, quantity: float, node_id: str = "") -> None:
        """Create, change or (with 0) delete a custom resource of a node, the caller's own if none is named."""
        if quantity < 0:
            raise OptionError(f"the capacity of resource {name!r} must be zero or more, not {quantity}")
        if name in ("CPU", "GPU", "memory", "object_store_memory"):
            raise OptionError(f"{name} is fixed when the node starts; only custom resources can be set at run time")
        node = self._head.node_named(node_id) if node_id else caller.node
        if node.client:
            raise OptionError("a remote driver has no node of its own whose resources it could set: say node_id=...")
        if quantity:
            node.total[name] = quantity
        else:
            node.total.pop(name, None)
        node.send(packed(head_messages.SetResource(name=name, quantity=quantity)))
        self._head.lease_manager.handle(ResourceChanged(node.id, name, quantity))

    def status(self, caller: Caller) -> Deferred:
        """Return what `kernel status` shows."""

        def put_together(reports: dict[NodeId, Any]) -> Pickled:
            head = self._head
            snapshot = head.lease_manager.scheduler.snapshot()
            known = [report for report in reports.values() if report is not None]
            return Pickled.of(
                {
                    "session": head.config.directory,
                    "node": caller.node.id.hex(),
                    "pid": caller.node.pid,
                    "started": head.started,
                    "scheduler": head.lease_manager.scheduler.name,
                    "metadata": {"name": head.metadata.name, "durable": head.journal.durable},
                    "total": _sum(snapshot.total.values()),
                    "available": _sum(snapshot.available.values()),
                    "waiting": [
                        {
                            "name": request.name,
                            "wanted": quantities(request.wanted),
                            "reason": head.lease_manager.explain(request.id),
                        }
                        for request in list(snapshot.waiting)[:20]
                    ],
                    "waiting_count": len(snapshot.waiting),
                    "nodes": node_rows(head),
                    "silent_nodes": self._without_answer(reports),
                    "workers": [row for report in known for row in report["workers"]],
                    "actors": head.actors.list(),
                    "placement_groups": head.groups.list(),
                    "jobs": self._jobs(),
                    "services": head.services.shown,
                    "store": _add([report["store"] for report in self._of_nodes(reports).values()]),
                    "memory": _memory(self._of_nodes(reports)),
                    "problems": {name: str(error) for name, error in head.manager.problems.items()},
                }
            )

        return self._ask_nodes("report", put_together, False)

    def workers(self, caller: Caller) -> Deferred:
        """Return a row per worker, of the nodes that answer; `status` says which did not."""

        def put_together(reports: dict[NodeId, Any]) -> Pickled:
            return Pickled.of([row for report in reports.values() if report for row in report["workers"]])

        return self._ask_nodes("report", put_together, False)

    def jobs(self, caller: Caller) -> Pickled:
        """Return a row per job."""
        return Pickled.of(self._jobs())

    def show_output(self, caller: Caller, seconds: float = PATIENCE_SECONDS) -> Deferred:
        """Send all that workers have written, and failures they know of, to whom it concerns, before the answer.

        That is which nodes have not done so within `seconds`.
        """
        deferred = Deferred()

        def show(answers: object) -> None:
            nodes = ((node.id, node, self._head.ask_node) for node in self._head.living_nodes())
            self._gather(nodes, self._without_answer, "drain_output", (), seconds).when_done(deferred.set)

        workers = [one for one in self._processes() if one.role == "worker" and one.job == caller.job]
        ask = self._head.ask
        told = self._gather(((one.id, one, ask) for one in workers), lambda answers: None, "tell_failures", (), _SOON)
        told.when_done(show)
        return deferred

    def stop(self, caller: Caller) -> None:
        """End the session."""
        self._head.end("it was asked to stop")

    # -- why and what ----------------------------------------------------------------------------------------------

    def explain_lease(self, caller: Caller, lease: LeaseId) -> str:
        """Say why a lease request waits."""
        return self._head.lease_manager.explain(lease)

    def explain_worker(self, caller: Caller, worker: ProcessId) -> str:
        """Say where a worker is."""
        found = self._head.callers.get(worker)
        if found is None:
            return "that worker has ended"
        return f"pid {found.pid} on node {found.node.id.hex()[:8]} ({found.node.host})"

    def explain_any(self, caller: Caller, prefix: bytes) -> Deferred:
        """Say what everything whose id begins with `prefix` waits for, asking every process.

        The answer has a row each: "actor", "placement group" or "object", id (hexadecimal), sentence; and one for each
        "process" that did not answer, which may know more.
        """
        actors, groups = self._head.actors, self._head.groups
        named = [actor for actor in actors.table.actors if actor.startswith(prefix) or prefix.startswith(actor)]

        def put_together(answers: dict[ProcessId, Any]) -> Pickled:
            known: dict[bytes, tuple[str, tuple[str, bytes] | None]] = {}
            for rows in answers.values():
                for id, owned, text, question in rows or ():
                    if owned or id not in known:
                        known[id] = (text, question)
            found = [("actor", actor.hex(), actors.explain(actor)) for actor in named]
            for group in groups.table.groups:
                if group.startswith(prefix):
                    found.append(("placement group", group.hex(), groups.explain(group)))
            for id, (text, question) in known.items():
                task = task_of(ObjectId(id))
                if task not in named:
                    more = f": {self._head.methods[question[0]](caller, question[1])}" if question else ""
                    waits = self._head.breakpoints.of(task)
                    more += f"; {waits}" if waits else ""
                    found.append(("object", id.hex(), text + more))
            if any(kind == "object" for kind, _, _ in found) or not found:
                found += [("process", id.hex(), _silence(*place)) for id, place in self._silent(answers).items()]
            return Pickled.of(found)

        return self._ask_processes("explain_matches", put_together, prefix)

    def memory(self, caller: Caller, limit: int = 0) -> Deferred:
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
                usage = _add([report["store"] for report in self._of_nodes(reports).values()])
                stored = [row for report in known for row in report["stored"]]
                found = {"usage": usage, "stored": stored, "processes": processes, "silent": silent}
                found["silent_nodes"] = self._without_answer(reports)
                deferred.set(Pickled.of({**found, "memory": _memory(self._of_nodes(reports))}))

            asked = {process.id: process for process in self._processes()}
            self._ask_processes("references", with_processes, limit)

        self._ask_nodes("report", with_nodes, True)
        return deferred

    def timeline(self, caller: Caller) -> Deferred:
        """Return what each process `told` of its calls, for `kernel.runtime.tracing.events_of`, and who was `silent`.

        As it came: unpacked here, a hundred thousand events would hold up the loop and leave the agent's memory in
        pieces.
        """

        def put_together(answers: dict[ProcessId, Any]) -> Pickled:
            told = [*self._past_calls, *filter(None, answers.values())]
            return Pickled.of({"told": told, "silent": self._silent(answers)})

        return self._ask_processes("trace", put_together)

    def tasks(self, caller: Caller) -> Deferred:
        """Return what processes told of tasks and calls, for `kernel.protocol.task_rows.all_tasks`, and who
        was `silent`. As it came, like the timeline: who asks makes the rows.
        """
        deferred = Deferred()

        def with_ended(ended: dict[ProcessId, Any]) -> None:
            told = [(NO_PROCESS, Pickled(data)) for data in self._past_calls]
            told += [(self._place(id), Pickled(data)) for id, data in ended.items() if data]
            silent = self._silent(ended)

            def with_open(answers: dict[ProcessId, Any]) -> None:
                waiting = [(self._place(id), Pickled(data)) for id, data in answers.items() if data]
                workers = {id.hex(): self._place(id) for id in self._head.callers}
                found = {"ended": told, "waiting": waiting, "workers": workers}
                deferred.set(Pickled.of({**found, "silent": {**silent, **self._silent(answers)}}))

            self._ask_processes("open_tasks", with_open)

        self._ask_processes("trace", with_ended)
        return deferred

    def _place(self, id: ProcessId) -> Mapping[str, Any]:
        process = self._head.callers.get(id)
        if process is None:
            return NO_PROCESS
        where = {"worker_id": id.hex(), "worker_pid": process.pid, "node_id": process.node.id.hex()}
        actor = self._head.actors.table.actor_of(id)
        return {**where, "job_id": process.job.hex(), "actor_id": actor.hex() if actor else None}

    def stacks(self, caller: Caller) -> Deferred:
        """Return the Python stacks of every process that answers, by node and pid (see `kernel.runtime.stacks`)."""

        def put_together(answers: dict[ProcessId, Any]) -> Pickled:
            found = {}
            for process, threads in answers.items():
                there = self._head.callers.get(process)
                if there is not None and threads:
                    found[there.node.id.hex(), there.pid] = threads
            return Pickled.of(found)

        return self._ask_processes("stacks", put_together)

    # -- key-value and packages ------------------------------------------------------------------------------------

    def kv_put(self, caller: Caller, namespace: str, key: bytes, value: bytes, overwrite: bool) -> bool:
        """Store a value."""
        check_size(key, len(value))
        return self._head.metadata.put(f"kv:{namespace}", key, value, overwrite=overwrite)  # type: ignore[no-any-return]

    def kv_get(self, caller: Caller, namespace: str, key: bytes) -> bytes | None:
        """Return a value."""
        return self._head.metadata.get(f"kv:{namespace}", key)  # type: ignore[no-any-return]

    def kv_delete(self, caller: Caller, namespace: str, key: bytes) -> bool:
        """Remove a value."""
        return self._head.metadata.delete(f"kv:{namespace}", key)  # type: ignore[no-any-return]

    def kv_keys(self, caller: Caller, namespace: str, prefix: bytes) -> list[bytes]:
        """Return the keys that begin with `prefix`."""
        return [key for key, _ in self._head.metadata.scan(f"kv:{namespace}", prefix)]

    def has_package(self, caller: Caller, digest: str) -> Deferred:
        """Return whether the head has a package."""
        return self._beside("has_package", lambda: self._head.archives.has(digest))

    def add_package(self, caller: Caller, digest: str, offset: int, total: int, piece: bytes) -> Deferred:
        """Take a piece of a package."""
        sender, archives = caller.id.hex(), self._head.archives
        return self._beside("add_package", lambda: archives.add(sender, digest, offset, total, piece))

    def add_environment(self, caller: Caller, description: bytes) -> str:
        """Make an environment the job's own; return its key."""
        key = self._head.environments.key_of(pickle.loads(description))
        job = self._head.jobs.get(caller.job)
        job.environment = key
        self._head.journal.job(job)
        return key

    def own_environment(self, caller: Caller) -> Mapping[str, Any]:
        """Return the environment that a process runs in; of a driver, its job's."""
        return self._head.environments.description(self._head.requests.environment_for(caller, None))

    def _on_last_calls(self, caller: Caller, message: Message) -> None:
        said = unpacked(op.LastCalls, message)
        self._past_calls.append(bytes(said.events))
        self._past_calls_bytes += len(said.events)
        while self._past_calls_bytes > PAST_CALLS_BYTES:
            self._past_calls_bytes -= len(self._past_calls.popleft())
        self._head.observation.note_calls(caller.id, said.new)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _beside(self, method: str, work: Callable[[], Any]) -> Deferred:
        """Have `work`, which is about files, done beside the loop; what it returns or raises is the answer."""
        deferred = Deferred()

        def done(outcome: Any) -> None:
            def again() -> Any:
                if isinstance(outcome, Exception):
                    raise outcome
                return outcome

            deferred.set(outcome_of(method, again, (), "the head", self._head.log))

        self._head.background.do(work, done)
        return deferred

    def _processes(self) -> list[Caller]:
        """Return every process that runs user code; tools, which only ask, are none."""
        return [caller for caller in self._head.callers.values() if caller.role in ("driver", "worker")]

    def _ask_processes(self, method: str, then: Callable[[dict[ProcessId, Any]], Any], *arguments: Any) -> Deferred:
        ask = self._head.ask
        return self._gather(((one.id, one, ask) for one in self._processes()), then, method, arguments)

    def _ask_nodes(self, method: str, then: Callable[[dict[NodeId, Any]], Any], *arguments: Any) -> Deferred:
        ask = self._head.ask_node
        return self._gather(((node.id, node, ask) for node in self._head.living_nodes()), then, method, arguments)

    def _gather(
        self,
        asked: Iterable[tuple[Any, Any, Callable[..., None]]],
        then: Callable[[dict[Any, Any]], Any],
        method: str,
        arguments: tuple[Any, ...],
        seconds: float = PATIENCE_SECONDS,
    ) -> Deferred:
        """Ask many; the answer is `then` of what came within `seconds`, by id."""
        deferred = Deferred()
        chosen = list(asked)
        answers: dict[Any, Any] = {id: None for id, _, _ in chosen}
        missing = set(answers)

        def answered(id: Any, value: Any) -> None:
            if id not in missing:
                return  # it was given up
            missing.remove(id)
            answers[id] = value
            if not missing:
                deferred.set(then(answers))

        def give_up() -> None:
            if missing:
                missing.clear()
                deferred.set(then(answers))

        if not chosen:
            deferred.set(then(answers))
        for id, one, ask in chosen:
            ask(one, method, lambda value, id=id: answered(id, value), *arguments)  # type: ignore[misc]
        self._head.reactor.call_later(seconds, give_up)
        return deferred

    def _of_nodes(self, reports: Mapping[NodeId, Any]) -> dict[NodeId, Any]:
        """Return the reports of nodes that answered; what a remote driver has is its own."""
        working = {node.id for node in self._head.working_nodes()}
        return {id: report for id, report in reports.items() if report is not None and id in working}

    def _silent(self, answers: Mapping[ProcessId, Any]) -> dict[bytes, tuple[int, str]]:
        """Return pid and node id (hexadecimal) of each process that is there, and did not answer in time."""
        asked = {id: self._head.callers.get(id) for id, answer in answers.items() if answer is None}
        return {id: (one.pid, one.node.id.hex()) for id, one in asked.items() if one is not None}

    def _without_answer(self, answers: Mapping[NodeId, Any]) -> list[str]:
        """Return the ids of nodes that were asked, are there still, and did not answer in time."""
        return [node.id.hex() for node in self._head.working_nodes() if answers.get(node.id, True) is None]

    def _jobs(self) -> list[dict[str, Any]]:
        callers = self._head.callers
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
            for job in self._head.jobs.jobs.values()
            if job.is_program
        ]


def _silence(pid: int, node: str) -> str:
    return f"pid {pid} on node {node} did not answer within {PATIENCE_SECONDS:g} s, and may know more of this"


def _host_outside(driver: Caller | None) -> str:
    """Return the host of a remote driver that is there, nothing of any other."""
    return driver.node.host if driver is not None and driver.node.client else ""


def _memory(reports: Mapping[NodeId, Any]) -> dict[str, Any]:
    """Return what the nodes say of their memory, by id."""
    return {node.hex(): report["memory"] for node, report in reports.items()}


def _sum(amounts: Iterable[Any]) -> dict[str, float]:
    total: dict[str, int] = {}
    for one in amounts:
        for name, units in one.items():
            total[name] = total.get(name, 0) + units
    return quantities(total)


def _add(usages: Iterable[dict[str, int]]) -> dict[str, int]:
    """Return the sums of what stores hold."""
    total: dict[str, int] = {}
    for usage in usages:
        for name, value in usage.items():
            total[name] = total.get(name, 0) + value
    return total

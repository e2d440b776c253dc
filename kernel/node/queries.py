"""What the agent answers when asked: nodes, resources, memory, workers, jobs, key-value, explanations."""

from __future__ import annotations

import os
import pickle
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernel.node.detection import host_name
from kernel.node.later import Later
from kernel.runtime import operations as op
from kernel.runtime.process import Peer
from kernel.transport.connection import Connection
from kernel_spec.errors import OptionError
from kernel_spec.ids import LeaseId, ObjectId, ProcessId, task_of
from kernel_spec.resources import quantities
from kernel_spec.scheduling import ResourceChanged

if TYPE_CHECKING:
    from kernel.node.agent import Agent


PAST_CALLS = 20_000
"""How many calls of workers that have ended the timeline remembers."""


def install(agent: Agent) -> None:
    """Let the agent answer these."""
    answers = Answers(agent)
    names = [name for name in dir(answers) if not name.startswith("_")]
    agent.methods |= {name: getattr(answers, name) for name in names}


class Answers:
    """Each public method is a question a process may ask; larger answers are pickled."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._past_calls: deque[dict[str, Any]] = deque(maxlen=PAST_CALLS)
        agent.handlers[op.LAST_CALLS] = lambda c, m: self._past_calls.extend(pickle.loads(m[1]))

    # -- the session -----------------------------------------------------------------------------------------------

    def nodes(self, connection: Connection) -> bytes:
        """Return a row per node."""
        agent = self._agent
        return pickle.dumps(
            [
                {
                    "NodeID": agent.node.hex(),
                    "Alive": True,
                    "NodeManagerAddress": "127.0.0.1",
                    "NodeManagerHostname": host_name(),
                    "NodeManagerPort": 0,
                    "ObjectManagerPort": 0,
                    "ObjectStoreSocketName": os.path.join(agent.config.directory, "agent.sock"),
                    "RayletSocketName": os.path.join(agent.config.directory, "agent.sock"),
                    "Resources": agent.total,
                    "Labels": dict(agent.config.labels),
                    "alive": True,
                    "AgentPid": os.getpid(),
                }
            ]
        )

    def cluster_resources(self, connection: Connection) -> bytes:
        """Return the totals."""
        snapshot = self._agent.desk.scheduler.snapshot()
        return pickle.dumps(_sum(snapshot.total.values()))

    def available_resources(self, connection: Connection) -> bytes:
        """Return what is free."""
        snapshot = self._agent.desk.scheduler.snapshot()
        return pickle.dumps({k: v for k, v in _sum(snapshot.available.values()).items() if v > 0})

    def set_resource(self, connection: Connection, name: str, quantity: float) -> None:
        """Create, change or (with 0) delete a custom resource."""
        if quantity < 0:
            raise OptionError(f"the capacity of resource {name!r} must be zero or more, not {quantity}")
        if name in ("CPU", "GPU", "memory", "object_store_memory"):
            raise OptionError(f"{name} is fixed when the node starts; only custom resources can be set at run time")
        if quantity:
            self._agent.total[name] = quantity
        else:
            self._agent.total.pop(name, None)
        self._agent.desk.handle(ResourceChanged(self._agent.node, name, quantity))

    def status(self, connection: Connection) -> bytes:
        """Return what `kernel status` shows."""
        agent = self._agent
        snapshot = agent.desk.scheduler.snapshot()
        usage = agent.store.server.usage()
        return pickle.dumps(
            {
                "session": agent.config.directory,
                "node": agent.node.hex(),
                "pid": os.getpid(),
                "started": agent.started,
                "scheduler": agent.desk.scheduler.name,
                "total": _sum(snapshot.total.values()),
                "available": _sum(snapshot.available.values()),
                "waiting": [
                    {
                        "name": request.name,
                        "wanted": quantities(request.wanted),
                        "reason": agent.desk.explain(request.id),
                    }
                    for request in list(snapshot.waiting)[:20]
                ],
                "waiting_count": len(snapshot.waiting),
                "workers": self._workers(),
                "actors": agent.actors.list(),
                "jobs": self._jobs(),
                "services": agent.services.shown,
                "store": {name: getattr(usage, name) for name in usage.__dataclass_fields__},
                "problems": {name: str(error) for name, error in agent.manager.problems.items()},
            }
        )

    def workers(self, connection: Connection) -> bytes:
        """Return a row per worker."""
        return pickle.dumps(self._workers())

    def jobs(self, connection: Connection) -> bytes:
        """Return a row per job."""
        return pickle.dumps(self._jobs())

    def show_output(self, connection: Connection) -> None:
        """Send everything that workers have written until now to whom it concerns, before the answer."""
        self._agent.logs.drain()

    def stop(self, connection: Connection) -> None:
        """End the session."""
        self._agent.end("it was asked to stop")

    # -- why and what ----------------------------------------------------------------------------------------------

    def explain_lease(self, connection: Connection, lease: LeaseId) -> str:
        """Say why a lease request waits."""
        return self._agent.desk.explain(lease)

    def explain_worker(self, connection: Connection, worker: ProcessId) -> str:
        """Say where a worker is."""
        record = self._agent.pool.workers.get(worker)
        if record is None:
            return "that worker has ended"
        return f"pid {record.pid} on node {self._agent.node.hex()[:8]}, {record.state}"

    def explain_any(self, connection: Connection, prefix: bytes) -> Any:
        """Say what everything whose id begins with `prefix` waits for, asking every process.

        The answer has a row per actor and object: "actor" or "object", id (hexadecimal), sentence.
        """
        actors = self._agent.actors
        named = [actor for actor in actors.table.actors if actor.startswith(prefix) or prefix.startswith(actor)]

        def put_together(answers: dict[ProcessId, Any]) -> bytes:
            known: dict[bytes, tuple[str, tuple[str, bytes] | None]] = {}
            for rows in answers.values():
                for id, owned, text, question in rows or ():
                    if owned or id not in known:
                        known[id] = (text, question)
            found = [("actor", actor.hex(), actors.explain(actor)) for actor in named]
            for id, (text, question) in known.items():
                if task_of(ObjectId(id)) not in named:
                    more = f": {self._agent.methods[question[0]](connection, question[1])}" if question else ""
                    found.append(("object", id.hex(), text + more))
            return pickle.dumps(found)

        return self._gather("explain_matches", put_together, prefix)

    def memory(self, connection: Connection, limit: int = 0) -> Any:
        """Return the store's objects and every process's references, of each process the `limit` largest (0: all)."""
        stored = [
            (row.object, row.owner, row.size, row.state, dict(row.pins)) for row in self._agent.store.server.objects()
        ]
        usage = self._agent.store.server.usage()
        counts = {name: getattr(usage, name) for name in usage.__dataclass_fields__}

        def put_together(answers: dict[ProcessId, Any]) -> bytes:
            processes, silent = [], []
            for id, one in self._processes():
                peer = one.info
                if answers.get(id) is None:
                    silent.append(peer.pid)
                    continue
                count, size, rows = answers[id]
                processes.append(
                    {
                        "process": id,
                        "role": peer.role,
                        "pid": peer.pid,
                        "name": self._name_of(peer),
                        "count": count,
                        "bytes": size,
                        "rows": rows,
                    }
                )
            return pickle.dumps({"usage": counts, "stored": stored, "processes": processes, "silent": silent})

        return self._gather("references", put_together, limit)

    def timeline(self, connection: Connection) -> Any:
        """Return Chrome trace events of every process."""

        def put_together(answers: dict[ProcessId, Any]) -> bytes:
            living = [event for data in answers.values() if data for event in pickle.loads(data)]
            return pickle.dumps([*self._past_calls, *living])

        return self._gather("trace", put_together)

    def stacks(self, connection: Connection) -> Any:
        """Return the Python stacks of every process that answers, by pid (see `kernel.runtime.stacks`)."""

        def put_together(answers: dict[ProcessId, Any]) -> bytes:
            found = {}
            for process, threads in answers.items():
                peer = self._agent.connections.get(process)
                if peer is not None and threads:
                    found[peer.info.pid] = threads
            return pickle.dumps(found)

        return self._gather("stacks", put_together)

    # -- key-value and packages ------------------------------------------------------------------------------------

    def kv_put(self, connection: Connection, namespace: str, key: bytes, value: bytes, overwrite: bool) -> bool:
        """Store a value."""
        return self._agent.metadata.put(f"kv:{namespace}", key, value, overwrite=overwrite)  # type: ignore[no-any-return]

    def kv_get(self, connection: Connection, namespace: str, key: bytes) -> bytes | None:
        """Return a value."""
        return self._agent.metadata.get(f"kv:{namespace}", key)  # type: ignore[no-any-return]

    def kv_delete(self, connection: Connection, namespace: str, key: bytes) -> bool:
        """Remove a value."""
        return self._agent.metadata.delete(f"kv:{namespace}", key)  # type: ignore[no-any-return]

    def kv_keys(self, connection: Connection, namespace: str, prefix: bytes) -> list[bytes]:
        """Return the keys that begin with `prefix`."""
        return [key for key, _ in self._agent.metadata.scan(f"kv:{namespace}", prefix)]

    def has_package(self, connection: Connection, digest: str) -> bool:
        """Return whether a package is unpacked on this node."""
        return self._agent.environments.has(digest)

    def add_package(self, connection: Connection, digest: str, archive: bytes) -> None:
        """Unpack a package."""
        self._agent.environments.add(digest, archive)

    def add_environment(self, connection: Connection, description: bytes) -> str:
        """Make an environment the job's own; return its key."""
        key = self._agent.environments.key_of(pickle.loads(description))
        job = self._agent.jobs.get(connection.info.details.get("job", b""))
        job.environment = key
        return key

    # -- inside ----------------------------------------------------------------------------------------------------

    def _gather(self, method: str, then: Callable[[dict[ProcessId, Any]], Any], *arguments: Any) -> Any:
        later = Later()
        answers: dict[ProcessId, Any] = {}
        asked = self._processes()
        missing = {id for id, _ in asked}

        def answered(id: ProcessId, value: Any) -> None:
            missing.discard(id)
            answers[id] = value
            if not missing:
                later.set(then(answers))

        def give_up() -> None:
            if missing:
                missing.clear()
                later.set(then(answers))

        if not asked:
            later.set(then(answers))
        for id, peer in asked:
            self._agent.ask(peer, method, lambda value, id=id: answered(id, value), *arguments)  # type: ignore[misc]
        self._agent.reactor.call_later(2.0, give_up)
        return later

    def _processes(self) -> list[tuple[ProcessId, Connection]]:
        """Return every process that runs user code; tools, which only ask, are none."""
        return [(id, peer) for id, peer in self._agent.connections.items() if peer.info.role in ("driver", "worker")]

    def _name_of(self, peer: Peer) -> str:
        worker = self._agent.pool.workers.get(peer.id)
        return worker.name if worker is not None else str(peer.details.get("script", ""))

    def _workers(self) -> list[dict[str, Any]]:
        return [
            {
                "worker_id": worker.id.hex(),
                "pid": worker.pid,
                "state": worker.state,
                "name": worker.name,
                "job_id": worker.key[0].hex(),
            }
            for worker in self._agent.pool.workers.values()
        ]

    def _jobs(self) -> list[dict[str, Any]]:
        return [
            {
                "job_id": job.id.hex(),
                "pid": job.pid,
                "namespace": job.namespace,
                "script": job.script,
                "started": job.started,
                "ended": job.ended,
            }
            for job in self._agent.jobs.jobs.values()
            if job.is_program
        ]


def _sum(amounts: Any) -> dict[str, float]:
    total: dict[str, int] = {}
    for one in amounts:
        for name, units in one.items():
            total[name] = total.get(name, 0) + units
    return quantities(total)

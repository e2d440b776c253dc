"""What local mode answers when asked about the session, as a node agent would."""

from __future__ import annotations

import os
import pickle
import socket
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernel.local.actor import DEAD
from kernel.local.environment import environment_here
from kernel.local.groups import LocalGroup
from kernel.local.resources import ADDRESS
from kernel.runtime.definitions import group_of
from kernel.runtime.open_tasks import open_tasks
from kernel_spec.errors import OptionError, ProtocolError
from kernel_spec.ids import ActorId
from kernel_spec.placement import all_hold, conditions
from kernel_spec.resources import Amounts, from_units, quantities
from kernel_spec.version import __version__

if TYPE_CHECKING:
    from kernel.local.runtime import LocalRuntime


KEPT_FAILURES = 1000


class LocalAnswers:
    """Each public method is a question."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self._runtime = runtime
        self._metadata: dict[tuple[str, bytes], bytes] = {}
        self._archives: dict[str, bytearray] = {}
        self._started = time.time()
        self.job_environment: dict[str, Any] | None = None
        self._failures: deque[dict[str, Any]] = deque(maxlen=KEPT_FAILURES)
        runtime.tasks.failures.send = self._note_failure

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Answer one question; raises ProtocolError for one that is not known."""
        answer = None if method.startswith("_") else getattr(type(self), method, None)
        if answer is None:
            raise ProtocolError(f"local mode does not answer {method!r}")
        return answer(self, *arguments)

    def failures(self, all_jobs: bool) -> list[dict[str, Any]]:
        """Return the failures that nobody asked for."""
        return list(self._failures)

    def _note_failure(self, row: dict[str, Any]) -> None:
        if "left_out" not in row:
            runtime = self._runtime
            where = {"job": bytes(runtime.job), "pid": os.getpid(), "node": runtime.node.hex()}
            self._failures.append({**row, **where})

    def nodes(self) -> list[dict[str, Any]]:
        """Return the one node."""
        runtime = self._runtime
        return [
            {
                "NodeID": runtime.node.hex(),
                "Alive": True,
                "State": "ALIVE",
                "IsHead": True,
                "NodeManagerAddress": ADDRESS,
                "NodeManagerHostname": socket.gethostname(),
                "NodeManagerPort": 0,
                "ObjectManagerPort": 0,
                "ObjectStoreSocketName": "",
                "RayletSocketName": "",
                "Resources": quantities(runtime.resources.pool.total),
                "Available": self.available_resources(),
                "Labels": dict(runtime.labels),
                "Version": __version__,
                "HeardSecondsAgo": 0.0,
                "alive": True,
                "AgentPid": os.getpid(),
                "Cause": "",
            }
        ]

    def cluster_resources(self) -> dict[str, float]:
        """Return the totals."""
        with self._runtime.lock:
            return quantities(self._runtime.resources.pool.total)

    def available_resources(self) -> dict[str, float]:
        """Return what is free; a resource of which nothing is free stays in the answer, as zero."""
        with self._runtime.lock:
            pool = self._runtime.resources.pool
            return {name: from_units(max(0, pool.available.get(name, 0))) for name in pool.total}

    def set_resource(self, name: str, quantity: float, node_id: str = "") -> None:
        """Create, change or (with 0) delete a custom resource."""
        self._check_node(node_id)
        if quantity < 0:
            raise OptionError(f"the capacity of resource {name!r} must be zero or more, not {quantity}")
        if name in ("CPU", "GPU", "memory", "object_store_memory"):
            raise OptionError(f"{name} is fixed when the node starts; only custom resources can be set at run time")
        with self._runtime.lock:
            self._runtime.resources.pool.set_total(name, quantity)
            self._runtime.resources.try_again()

    def drain_node(self, node_id: str, seconds: float | None) -> None:
        """Refuse: there is one node, this process."""
        self._check_node(node_id)
        raise OptionError(f"node {node_id} is this process (local mode), which can't do without itself")

    def _check_node(self, node_id: str) -> None:
        own = self._runtime.node.hex()
        if node_id not in ("", own):
            raise OptionError(f"there is no living node {node_id!r}; the living nodes are {own}")

    def status(self) -> dict[str, Any]:
        """Return what `kernel status` shows."""
        runtime = self._runtime
        with runtime.lock:
            waiting = [
                {
                    "name": request.name,
                    "wanted": quantities(request.wish.wanted),
                    "reason": runtime.resources.infeasible(request.wish) or runtime.resources.busy(request.wish),
                }
                for request in runtime.resources.waiting
            ]
        return {
            "session": runtime.session_directory,
            "node": runtime.node.hex(),
            "pid": os.getpid(),
            "started": self._started,
            "scheduler": "none (local mode)",
            "total": self.cluster_resources(),
            "available": self.available_resources(),
            "waiting": waiting[:20],
            "waiting_count": len(waiting),
            "workers": self.workers(),
            "actors": self.actors(),
            "placement_groups": self.placement_groups(),
            "jobs": self.jobs(),
            "services": {},
            "store": {"objects": len(runtime.store.values), "used": sum(map(len, runtime.store.values.values()))},
            "problems": {},
        }

    def timeline(self) -> dict[str, Any]:
        """Return what this process tells of its calls, see `kernel.runtime.tracing.events_of`; nobody else is asked."""
        return {"told": [pickle.dumps(self._runtime.trace.events())], "silent": {}}

    def tasks(self) -> dict[str, Any]:
        """Return what this process tells of tasks and calls, see `kernel.protocol.task_rows.all_tasks`."""
        runtime = self._runtime
        here = {"worker_id": runtime.process.hex(), "worker_pid": os.getpid(), "node_id": runtime.node.hex()}
        place = {**here, "job_id": runtime.job.hex()}
        with runtime.lock:
            waiting = open_tasks(list(runtime.ownership.objects.values()), runtime.tasks.running)
        ended = [(place, runtime.trace.events())]
        return {"ended": ended, "waiting": [(place, waiting)], "workers": {}, "silent": {}}

    def workers(self) -> list[dict[str, Any]]:
        """There are none but this process."""
        return []

    def jobs(self) -> list[dict[str, Any]]:
        """Return the one job."""
        runtime = self._runtime
        return [
            {
                "job_id": runtime.job.hex(),
                "pid": os.getpid(),
                "namespace": runtime.namespace,
                "script": "",
                "started": self._started,
                "ended": None,
            }
        ]

    def actors(self, dead: bool = True) -> list[dict[str, Any]]:
        """Return a row per actor, of those that have died only with `dead`."""
        with self._runtime.lock:
            return [
                {
                    "actor_id": actor.id.hex(),
                    "class_name": actor.name,
                    "name": actor.options.name,
                    "namespace": actor.namespace,
                    "state": actor.state,
                    "pid": os.getpid(),
                    "node_id": self._runtime.node.hex(),
                    "restarts": actor.attempt,
                    "detached": actor.options.detached,
                    "job_id": self._runtime.job.hex(),
                    "cause": actor.cause,
                    "required_resources": quantities(actor.options.wanted),
                    "placement_group_id": (group_of(actor.options.strategy) or {}).get("group"),
                }
                for actor in self._runtime.actors.actors.values()
                if dead or actor.state != DEAD
            ]

    def explain_actor(self, actor: bytes) -> str:
        """Say what an actor waits for."""
        return self._runtime.explanations.of_actor(self._runtime.actors.actors.get(ActorId(actor)))

    def create_placement_group(
        self,
        id: str,
        bundles: list[Amounts],
        strategy: str,
        name: str,
        namespace: str,
        detached: bool,
        hints: bytes,
        labels: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Ask for a group. Raises NameTakenError."""
        right = all(all_hold(conditions(wanted), self._runtime.labels) for wanted in labels)
        group = LocalGroup(id, bundles, strategy, name, namespace, detached, right)
        with self._runtime.lock:
            self._runtime.resources.groups.create(group)

    def remove_placement_group(self, id: str) -> None:
        """End a group, and what is in it."""
        runtime = self._runtime
        with runtime.lock:
            groups = runtime.resources.groups
            groups.remove(id, "it was removed by kernel.remove_placement_group()")
            for actor in list(runtime.actors.actors.values()):
                group = group_of(actor.options.strategy)
                if group is not None and group["group"] == id:
                    runtime.actors.die(actor, groups.explain(id))
            runtime.resources.try_again()

    def find_placement_group(self, name: str, namespace: str) -> dict[str, Any] | None:
        """Return the row of the living group of that name."""
        group = self._runtime.resources.groups.find(namespace, name)
        return group.row(self._runtime.node.hex()) if group is not None else None

    def placement_groups(self, id: str = "") -> list[dict[str, Any]]:
        """Return a row per group, or just that of one."""
        node, groups = self._runtime.node.hex(), self._runtime.resources.groups.groups
        with self._runtime.lock:
            rows = [group.row(node) for group in groups.values() if id in ("", group.id)]
        return [{**row, "job_id": self._runtime.job.hex()} for row in rows]

    def explain_placement_group(self, id: str) -> str:
        """Say what a group waits for."""
        with self._runtime.lock:
            return self._runtime.resources.groups.explain(id)

    def kv_put(self, namespace: str, key: bytes, value: bytes, overwrite: bool) -> bool:
        """Store a value; return whether it was."""
        if not overwrite and (namespace, key) in self._metadata:
            return False
        self._metadata[(namespace, key)] = value
        return True

    def kv_get(self, namespace: str, key: bytes) -> bytes | None:
        """Return a value."""
        return self._metadata.get((namespace, key))

    def kv_delete(self, namespace: str, key: bytes) -> bool:
        """Remove a value; return whether there was one."""
        return self._metadata.pop((namespace, key), None) is not None

    def kv_keys(self, namespace: str, prefix: bytes) -> list[bytes]:
        """Return the keys that begin with `prefix`."""
        return sorted(key for space, key in self._metadata if space == namespace and key.startswith(prefix))

    def has_package(self, digest: str) -> bool:
        """Return whether a package is unpacked."""
        return self._runtime.environments.has(digest)

    def add_package(self, digest: str, offset: int, total: int, piece: bytes) -> None:
        """Take a piece of a package, and unpack it after the last one."""
        archive = self._archives.setdefault(digest, bytearray())
        archive[offset:] = piece
        if len(archive) == total:
            self._runtime.environments.add(digest, bytes(self._archives.pop(digest)))

    def add_environment(self, description: bytes) -> str:
        """Make an environment the one of tasks and actors that ask for none."""
        self.job_environment = pickle.loads(description)
        return ""

    def own_environment(self) -> Mapping[str, Any]:
        """Return the environment that the caller runs in; outside of tasks and actors, the program's."""
        return environment_here.get() or self.job_environment or {}

"""`ray.get_runtime_context()`: where code runs, in the words of all generations."""

from __future__ import annotations

import json
import os
from typing import Any

import kernel
from kernel_compat_ray.errors import NotSupportedError
from kernel_compat_ray.ids import ActorID, JobID, NodeID, PlacementGroupID, TaskID, WorkerID
from kernel_compat_ray.labels import to_ray
from kernel_compat_ray.session import init
from kernel_compat_ray.state import get_node_ip_address

_ACCELERATORS = ("GPU", "HPU", "NPU", "TPU", "neuron_cores")
"""Kinds that programs look up without checking whether the mapping has them."""


class RuntimeContext:
    """Answers about the session, node, job, task and actor that the calling code belongs to."""

    def __getattr__(self, name: str) -> Any:
        return getattr(kernel.get_runtime_context(), name)

    job_id = property(lambda self: JobID(self.get_job_id()))
    node_id = property(lambda self: NodeID(self.get_node_id()))
    worker_id = property(lambda self: WorkerID(self.get_worker_id()))
    task_id = property(lambda self: TaskID(self.get_task_id()) if self.get_task_id() else None)
    actor_id = property(lambda self: ActorID(self.get_actor_id()) if self.get_actor_id() else None)
    current_node_id = node_id
    current_driver_id = job_id

    @property
    def current_placement_group_id(self) -> PlacementGroupID | None:
        """Return the id of the placement group this code runs in, or None."""
        found = self.get_placement_group_id()
        return PlacementGroupID(found) if found else None

    @property
    def gcs_address(self) -> str:
        """Return where the session is, for `ray.init(address=...)`."""
        return str(kernel.init(ignore_reinit_error=True)["address"])

    @property
    def runtime_env(self) -> dict[str, Any]:
        """Return the runtime_env that this code runs in; directories in it are packed, and can be given again."""
        return kernel.get_runtime_context().runtime_env

    def get_placement_group_id(self) -> str | None:
        """Return the id of the placement group this code runs in, or None."""
        group = kernel.get_current_placement_group()
        return group.id if group is not None else None

    def get_actor_name(self) -> str | None:
        """Return the name by which this actor is found, "" for one without, None outside of an actor."""
        actor = self.get_actor_id()
        if actor is None:
            return None
        names = [row["name"] for row in kernel.actors() if row["actor_id"] == actor]
        return str(names[0]) if names else ""

    def get_assigned_resources(self) -> dict[str, float]:
        """Return what the task's lease (or the actor) holds."""
        return kernel.get_runtime_context().get_assigned_resources()

    def get_task_function_name(self) -> str | None:
        """Return the name of the task or call that runs here, or None."""
        return self.get_task_name()

    def get_session_name(self) -> str:
        """Return the session's name."""
        return os.path.basename(str(kernel.init(ignore_reinit_error=True)["session_dir"]))

    def get_node_labels(self) -> dict[str, str]:
        """Return the labels of the node where this runs."""
        rows = [row for row in kernel.nodes() if row["NodeID"] == self.get_node_id()]
        return to_ray(rows[0]["Labels"]) if rows else {}

    def get_resource_ids(self) -> dict[str, list[str]]:
        """Return the devices that this code may use, by resource."""
        return self.get_accelerator_ids()

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """Return the devices that this code may use by kind of accelerator, with empty lists for kinds without any."""
        return {**{kind: [] for kind in _ACCELERATORS}, **kernel.get_runtime_context().get_accelerator_ids()}

    def get_temp_dir(self) -> str:
        """Return the session's directory."""
        return str(kernel.init(ignore_reinit_error=True)["session_dir"])

    def get_runtime_env_string(self) -> str:
        """Return the runtime_env that this code runs in, as JSON."""
        return json.dumps(self.runtime_env)

    def get(self) -> dict[str, Any]:
        """Return all of it as a dict."""
        found = {"job_id": self.job_id, "node_id": self.node_id, "namespace": self.namespace}
        if self.get_task_id():
            found["task_id"] = self.task_id
        if self.get_actor_id():
            found["actor_id"] = self.actor_id
        return found


_context = RuntimeContext()


def get_runtime_context() -> RuntimeContext:
    """Return the context of the calling code. Starts a session if none runs."""
    if not kernel.is_initialized():
        init()
    return _context


class GlobalWorker:
    """Answers older programs that use `ray.worker.global_worker`: whether there is a session, and of which kind."""

    @property
    def connected(self) -> bool:
        """Return whether this process is in a session."""
        return kernel.is_initialized()

    @property
    def mode(self) -> int | None:
        """Return `ray.SCRIPT_MODE`, `WORKER_MODE` or `LOCAL_MODE`; None without a session."""
        if not kernel.is_initialized():
            return None
        if kernel.init(ignore_reinit_error=True)["local_mode"]:
            return 2
        context = kernel.get_runtime_context()
        return 1 if context.get_task_id() or context.get_actor_id() else 0

    @property
    def current_job_id(self) -> JobID:
        """Return the job's id."""
        return JobID(kernel.get_runtime_context().get_job_id())

    @property
    def worker_id(self) -> WorkerID:
        """Return this process's id."""
        return WorkerID(kernel.get_runtime_context().get_worker_id())

    @property
    def redis_client(self) -> Any:
        """Raise NotSupportedError."""
        raise NotSupportedError("there is no Redis; ask ray.nodes(), ray.util.state, or `kernel status`")

    @property
    def core_worker(self) -> RuntimeContext:
        """Return what answers for ids."""
        return _context

    @property
    def node(self) -> GlobalWorker:
        """Return what stands for the node."""
        return self

    @property
    def node_ip_address(self) -> str:
        """Return the address of the node."""
        return get_node_ip_address()

    def get_session_dir_path(self) -> str:
        """Return the session's directory."""
        return str(kernel.init(ignore_reinit_error=True)["session_dir"])

    def check_connected(self) -> None:
        """Raise RuntimeError without a session."""
        if not kernel.is_initialized():
            raise RuntimeError("there is no session; call ray.init() first")


global_worker = GlobalWorker()

"""The context of running user code: its ids, resources and devices."""

from __future__ import annotations

import os
from typing import Any

from kernel.api.actor import handle_from_description
from kernel.runtime.current import get_runtime
from kernel.runtime.execution_context import current_execution
from kernel.runtime.worker_info import current_worker
from kernel_spec.errors import OutsideActorError, OutsideCallError
from kernel_spec.resources import GPU, quantities


class RuntimeContext:
    """Answers about the session, node, job, task and actor that the calling code belongs to."""

    def get_job_id(self) -> str:
        """Return the job's id."""
        return get_runtime().job.hex()

    def get_node_id(self) -> str:
        """Return the node's id."""
        return get_runtime().node.hex()

    def get_worker_id(self) -> str:
        """Return this process's id."""
        return get_runtime().process.hex()

    def get_task_id(self) -> str | None:
        """Return the id of the task or call that runs here, or None."""
        task = current_execution.get().task
        return task.hex() if task else None

    def get_task_name(self) -> str | None:
        """Return the name of the task or call that runs here, or None."""
        return current_execution.get().name or None

    def get_attempt_number(self) -> int:
        """Return the number of earlier attempts of this task, 0 for the first."""
        return current_execution.get().attempt

    def is_canceled(self) -> bool:
        """Return whether the running task or call was cancelled, so that it can end itself.

        After the first use, `cancel` no longer interrupts an actor's call in a thread: the call has to check again, and
        its caller gets TaskCancelledError when it has returned. Raises OutsideCallError where no task or call runs.
        """
        task = current_execution.get().task
        if not task:
            raise OutsideCallError("is_canceled() works only inside a task or a method of an actor")
        return get_runtime().is_cancelled(task)

    def get_actor_id(self) -> str | None:
        """Return the id of the actor this code runs in, or None."""
        actor = get_runtime().current_actor()
        return actor.hex() if actor else None

    def get_actor_name(self) -> str | None:
        """Return the class name of the actor this code runs in, or None."""
        return current_worker().actor_name or None

    @property
    def current_actor(self) -> Any:
        """A handle to the actor that this code runs in. Raises OutsideActorError outside of an actor."""
        found = get_runtime().describe_current_actor()
        if found is None:
            raise OutsideActorError("current_actor is available only inside an actor")
        return handle_from_description(found, keeps=True)

    @property
    def namespace(self) -> str:
        """The namespace in which names are looked up."""
        return get_runtime().namespace

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether this actor was restarted."""
        return current_worker().restarts > 0

    def get_assigned_resources(self) -> dict[str, float]:
        """Return the resources that the task's lease or the actor holds, name to quantity."""
        return quantities(current_worker().resources)

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        """Whether tasks and actors that are started here run in the placement group that this code runs in."""
        return current_worker().captures is not None

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """Return the ids of the devices that this code may use, by resource, as strings. See `get_gpu_ids`."""
        return {name: list(map(str, _device_ids(name))) for name in current_worker().devices}

    @property
    def runtime_env(self) -> dict[str, Any]:
        """The runtime_env that this code runs in, packed: any program of the session can use it."""
        return dict(get_runtime().query("own_environment"))

    def get(self) -> dict[str, Any]:
        """Return the ids, the namespace and the pid of this code as a dict."""
        return {
            "job_id": self.get_job_id(),
            "node_id": self.get_node_id(),
            "worker_id": self.get_worker_id(),
            "task_id": self.get_task_id(),
            "actor_id": self.get_actor_id(),
            "namespace": self.namespace,
            "pid": os.getpid(),
        }


_context = RuntimeContext()


def get_runtime_context() -> RuntimeContext:
    """Return the context in which the calling code runs. Raises NotInitializedError without a session."""
    get_runtime()
    return _context


def get_gpu_ids() -> list[int] | list[str]:
    """Return the indexes of the GPUs that the running task or actor may use.

    If `CUDA_VISIBLE_DEVICES` was set before the worker was started, they are entries of that variable, as strings.
    """
    return _device_ids(GPU)


def _device_ids(resource: str) -> list[int] | list[str]:
    worker = current_worker()
    names = worker.device_names.get(resource)
    return sorted(worker.devices.get(resource, {})) if names is None else list(names)


def get_resource_ids() -> dict[str, list[tuple[int, float]]]:
    """Return the resources that this code holds: (device index, share) for each device, (0, quantity) for others."""
    shown: dict[str, list[tuple[int, float]]] = {}
    for name, quantity in quantities(current_worker().resources).items():
        devices = current_worker().devices.get(name)
        shown[name] = [(i, u / 10_000) for i, u in sorted(devices.items())] if devices else [(0, quantity)]
    return shown

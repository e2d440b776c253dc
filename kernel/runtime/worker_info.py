"""Facts about this worker: the resources and devices of its lease, and its actor.

In local mode one process is many workers: each call then has a `WorkerInfo` of its own, set in its context.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from kernel.runtime.definitions import captured
from kernel_spec.errors import KernelError
from kernel_spec.resources import CPU


class WorkerInfo:
    """One per worker. `isolate` and `limit_threads` are set by the node's worker start-up: the one hides other devices
    from user code, the other has libraries start as many threads as there are CPUs (in units). While `isolate` has
    failed, `fault` says so, and no user code is run: it would see devices that are not its own.

    `leave(method)` has the actor of this process end after its calls, whatever thread says so.

    `group` is the strategy of the lease if that lies in a placement group, `captures` the one of what is submitted here
    and says nothing of its own, if the group captures that.
    """

    def __init__(self) -> None:
        self.resources: dict[str, int] = {}
        self.devices: dict[str, dict[int, int]] = {}
        self.device_names: dict[str, list[str]] = {}
        """Kind to the names that the user gave its devices, by index, if that was done before this process began."""
        self.group: Mapping[str, Any] | None = None
        self.captures: Mapping[str, Any] | None = None
        self.fault: KernelError | None = None
        self.actor = b""
        self.actor_name = ""
        self.description: dict[str, Any] | None = None
        self.restarts = 0
        self.namespace = ""
        self.isolate: Callable[[dict[str, dict[int, int]]], None] = lambda devices: None
        self.leave: Callable[[str], None] = lambda method: None
        self.limit_threads: Callable[[int], None] = lambda units: None

    def assign(
        self, resources: dict[str, int], devices: dict[str, dict[int, int]], group: Mapping[str, Any] | None
    ) -> None:
        """Note a new lease; show user code only its devices."""
        self.resources = resources
        self.limit_threads(resources.get(CPU, 0))
        self.group, self.captures = group, captured(group)
        if devices != self.devices or self.fault is not None:
            self.devices = devices
            self.fault = None
            try:
                self.isolate(devices)
            except KernelError as error:
                self.fault = error


worker_info = WorkerInfo()

local_worker: ContextVar[WorkerInfo | None] = ContextVar("kernel_local_worker", default=None)
"""The `WorkerInfo` of the running call, in local mode."""


def current_worker() -> WorkerInfo:
    """Return what the calling code was given."""
    return local_worker.get() or worker_info

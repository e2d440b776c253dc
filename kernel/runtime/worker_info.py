"""What this process was given: resources and devices of its lease, and which actor it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class WorkerInfo:
    """One per process. `isolate` is set by the node's worker start-up; it hides other devices from user code."""

    def __init__(self) -> None:
        self.resources: dict[str, int] = {}
        self.devices: dict[str, dict[int, int]] = {}
        self.actor = b""
        self.actor_name = ""
        self.description: dict[str, Any] | None = None
        self.restarts = 0
        self.namespace = ""
        self.isolate: Callable[[dict[str, dict[int, int]]], None] = lambda devices: None

    def assign(self, resources: dict[str, int], devices: dict[str, dict[int, int]]) -> None:
        """Note a new lease; show user code only its devices."""
        self.resources = resources
        if devices != self.devices:
            self.devices = devices
            self.isolate(devices)


worker_info = WorkerInfo()

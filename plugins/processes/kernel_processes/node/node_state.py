"""Hold the state of a node itself: its resources, labels and devices, its place, whether it leaves."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from typing import Any

from kernel_processes.node.detection import host_name
from kernel_processes.node.head_client import HeadClient
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.agent_config import AgentConfig
from kernel_spec.labels import labels_of_node
from kernel_spec.version import __version__


class NodeState:
    """Holds the state of one node at `place`, with the resources `total` (quantities). `clock` is the reactor's."""

    def __init__(
        self,
        head: HeadClient,
        config: AgentConfig,
        total: dict[str, float],
        devices: Iterable[str],
        place: str,
        clock: Callable[[], float],
    ) -> None:
        self.total = total
        self._config = config
        self._devices = devices
        self._place = place
        self._clock = clock
        self._leaves_at: float | None = None
        """The time at which the draining node leaves at the latest; infinity without a deadline."""
        head.on(head_messages.DrainNode, lambda said: self._drain(said.seconds))
        head.on(head_messages.CancelDrain, lambda said: self._cancel_drain())
        head.on(head_messages.SetResource, lambda said: self._set_resource(*said))

    @property
    def leaving(self) -> bool:
        """Whether the node is being drained."""
        return self._leaves_at is not None

    def leaves_in(self) -> float | None:
        """Return the seconds after which a draining node leaves at the latest; None without a deadline."""
        if self._leaves_at is None or math.isinf(self._leaves_at):
            return None
        return max(0.0, self._leaves_at - self._clock())

    def description(self) -> dict[str, Any]:
        """Return the node's part of a `kernel_processes.head.nodes.NodeRecord`."""
        return {
            "total": self.total,
            "labels": labels_of_node(self._config.node.hex(), self._config.labels, self.total),
            "devices": tuple(self._devices) or ("GPU",),
            "host": host_name(),
            "address": self._place,
            "directory": self._config.directory,
            "pid": os.getpid(),
            "version": __version__,
            "client": bool(self._config.relay),
        }

    def _drain(self, seconds: float | None) -> None:
        """The node is to leave, in `seconds` at the latest."""
        self._leaves_at = math.inf if seconds is None else self._clock() + seconds

    def _cancel_drain(self) -> None:
        self._leaves_at = None

    def _set_resource(self, name: str, quantity: float) -> None:
        """Set a custom resource, which is also reported to a head that takes over."""
        self.total[name] = quantity
        if not quantity:
            del self.total[name]

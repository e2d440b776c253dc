"""The head's records of the nodes of a session and the processes on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from kernel_engine.messages.named_messages import Message
from kernel_processes.protocol import head_messages
from kernel_spec.dataclass import dataclass
from kernel_spec.ids import JobId, NodeId, ProcessId


@dataclass(slots=True, eq=False)
class NodeRecord:
    """Holds the state of one node. `send` queues a message to its agent; `total` is in plain quantities.

    A `client` is only the agent of a remote driver: it runs no tasks, and is not counted. `known` holds the jobs and
    environments that its agent knows. `last_heartbeat_at` is when its agent last answered a heartbeat, on the
    reactor's clock; None for the node in the head's own process.
    """

    id: NodeId
    send: Callable[[Message], None]
    total: dict[str, float]
    labels: Mapping[str, str]
    devices: tuple[str, ...]
    host: str
    address: str
    directory: str
    pid: int
    joined: float
    version: str = ""
    alive: bool = True
    cause: str = ""
    last_heartbeat_at: float | None = None
    client: bool = False
    draining: bool = False
    drained: bool = False

    @property
    def state(self) -> str:
        """The state in listings: ALIVE, DRAINING (nothing new is granted there), DRAINED (it has left) or DEAD."""
        if self.alive:
            return "DRAINING" if self.draining else "ALIVE"
        return "DRAINED" if self.drained else "DEAD"

    known: set[bytes | str] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class ProcessRecord:
    """Holds the state of a process of some node. `environment` is the key of its runtime environment."""

    id: ProcessId
    role: str
    pid: int
    address: str
    job: JobId
    environment: str
    details: Mapping[str, Any]
    node: NodeRecord
    closed: bool = False

    def send(self, message: Message) -> None:
        """Queue a message to it."""
        self.node.send((head_messages.TO_PROCESS, self.id, message))

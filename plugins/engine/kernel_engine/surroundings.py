"""The interfaces that the parts of an engine require of their surroundings: the process, its connections, its store.

`kernel_processes` implements them with sockets and shared memory, `kernel_local_mode` within one process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from kernel.runtime.waiter import Waiter
from kernel_engine.messages.named_messages import Message
from kernel_spec.ids import ObjectId, ProcessId


class EngineIdentity(Protocol):
    """Identifies a process of a session; `gateway` is where other machines reach its node, "" if they can't."""

    id: ProcessId
    node: bytes
    gateway: str


class EnginePeer(Protocol):
    """Identifies another process, and where it is reached."""

    id: ProcessId
    address: str


class EngineConnection(Protocol):
    """Sends messages to another process, `info`."""

    closed: bool
    info: EnginePeer

    def flush(self) -> None:
        """Write what is queued, now."""


class Pump(Protocol):
    """Waits for messages."""

    def wait(self, waiter: Waiter, timeout: float | None = None) -> bool:
        """Handle messages until the waiter is done; return whether it is, within `timeout` seconds."""


class EngineProcess(Protocol):
    """Represents this process: its lock, and its messages to others and from them.

    `handlers` has a function per number of a message, called under the lock. `ended` says why the session is over, if
    it is. `on_peer_lost` are called when a process has died, `on_peer_met` when one has connected.
    """

    id: ProcessId
    address: str
    identity: EngineIdentity
    lock: threading.RLock
    pump: Pump
    agent: EngineConnection
    ended: str | None
    handlers: dict[int, Callable[[Any, Message], None]]
    on_peer_lost: list[Callable[[Any, str], None]]
    on_peer_met: Callable[[ProcessId], None]

    def peer(self, process: ProcessId, address: str) -> EngineConnection:
        """Return the connection to a process. Raises OSError when there is none."""

    def send(self, connection: EngineConnection, message: Message) -> None:
        """Queue a message. Raises OSError when the connection is closed."""

    def flush_soon(self) -> None:
        """Have what is queued written, though no thread of this process waits."""

    def after_batch(self, leftovers: Any, drain: Callable[[], None]) -> None:
        """Call `drain` after messages were handled, if `leftovers` has something."""


class EngineStore(Protocol):
    """Accesses the object store for this process. `drop_idle_views` frees mapped values to which nothing refers."""

    drop_idle_views: Callable[[], None]

    def write(self, id: ObjectId, head: bytes, buffers: Sequence[Any], owner: ProcessId, weak: bool = False) -> Any:
        """Store a value; return where it lies."""

    def view(
        self, id: ObjectId, stored: Any, owner: tuple[ProcessId, str], deadline: float | None = None
    ) -> memoryview:
        """Return the bytes of a value, fetched first if they are elsewhere."""

    def delete(self, ids: Iterable[ObjectId]) -> None:
        """Forget objects of this node's store."""

    def delete_at(self, place: str, ids: Iterable[ObjectId]) -> None:
        """Have the store of another node forget objects."""

    def keep_at(self, place: str, id: ObjectId) -> None:
        """Have the store of a node keep its copy, whatever it was made from."""

    def drain_released(self) -> None:
        """Tell the store of views that are gone."""


class CallRuntime(Protocol):
    """Offers a `CallRunner` the parts of the runtime that it uses for calls."""

    serializer: Any
    identity: EngineIdentity
    io: EngineProcess
    store: EngineStore
    ownership: Any
    values: Any
    details: Mapping[str, Any]

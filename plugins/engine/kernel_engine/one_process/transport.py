"""Stand-ins for the sockets, the store and the peers of a process, for a runtime that lives in one process only.

Results of calls are sent as messages, as in a session; they arrive at once, in the thread that sends them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence, Sized
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from kernel.runtime.critical_sections import calls_user_code
from kernel.runtime.object_entry import ObjectEntry
from kernel.runtime.waiter import Waiter
from kernel_engine.objects.ownership import Carried, Ownership
from kernel_engine.objects.value_placement import Stored
from kernel_engine.serialization.layout import pack, packed_size
from kernel_spec.dataclass import dataclass
from kernel_spec.ids import ObjectId, ProcessId
from kernel_spec.serialization import Buffer

_TICK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class InProcessPeer:
    """Stands in for the only peer of such a process: the process itself."""

    id: ProcessId
    address: str = ""


class InProcessChannel:
    """Connects the process to itself. Messages of an actor after it was killed (`closed`) are dropped."""

    def __init__(self, process: ProcessId) -> None:
        self.info = InProcessPeer(process)
        self.closed = False


@dataclass(frozen=True, slots=True)
class InProcessIdentity:
    """Identifies this process in errors."""

    id: ProcessId
    node: bytes


class InProcessPump:
    """Blocks threads, each within `blocked()`.

    `on_tick` is called now and then while a thread waits without a deadline, and may raise.
    """

    def __init__(self) -> None:
        self.blocked: Callable[[], AbstractContextManager[None]] = nullcontext
        self.on_tick: Callable[[], None] = lambda: None

    @calls_user_code  # A signal's handler may raise here: nothing needs to be undone.
    def wait(self, waiter: Waiter, deadline: float | None = None) -> bool:
        """Park until `waiter` has nothing left or `deadline` (monotonic seconds); return whether it has not."""
        if waiter.remaining <= 0:
            return True
        with self.blocked():
            while waiter.remaining > 0:
                pause = _TICK_SECONDS
                if deadline is not None:
                    pause = min(pause, deadline - time.monotonic())
                    if pause <= 0:
                        return False
                signal = threading.Lock()
                signal.acquire()
                waiter.signal = signal
                woken = waiter.remaining <= 0 or signal.acquire(timeout=pause)
                waiter.signal = None
                if not woken and deadline is None:
                    self.on_tick()
        return True


class InProcessTransport:
    """Stands in for `kernel_processes.runtime.process.Process`."""

    address = ""
    agent = None
    closing = False

    def __init__(self, process: ProcessId, node: bytes) -> None:
        self.id = process
        self.identity = InProcessIdentity(process, node)
        self.lock = threading.RLock()
        self.pump = InProcessPump()
        self.handlers: dict[int, Callable[[Any, Any], None]] = {}
        self.on_peer_lost: list[Any] = []
        self._after_batch: list[tuple[Sized, Callable[[], None]]] = []
        self.ended: str | None = None

    def channel(self) -> InProcessChannel:
        """Return a new connection to this process."""
        return InProcessChannel(self.id)

    def send(self, channel: InProcessChannel, message: tuple[Any, ...]) -> None:
        """Deliver a message."""
        with self.lock:
            if not channel.closed:
                self.handlers[message[0]](channel, message)

    def flush_soon(self) -> None:
        """Do nothing: messages are delivered at once."""

    def after_batch(self, leftovers: Sized, function: Callable[[], None]) -> None:
        """Call `function` in `finish_batch` if there is something in `leftovers`."""
        self._after_batch.append((leftovers, function))

    def finish_batch(self) -> None:
        """Do what changes of the state have left to do. Under the lock."""
        for leftovers, function in self._after_batch:
            if leftovers:
                function()

    def raise_interrupt(self) -> None:
        """Signals are raised where they happen."""


class InProcessStore:
    """Stands in for `StoreAccess`: it keeps large values as read-only bytes in a dictionary."""

    def __init__(self) -> None:
        self.values: dict[ObjectId, memoryview] = {}
        self.drop_idle_views: Callable[[], None] = lambda: None

    def write(
        self, id: ObjectId, head: bytes, buffers: Sequence[Buffer], owner: ProcessId, weak: bool = False
    ) -> Stored:
        """Store a serialized value and return its size in bytes, and no place: there is just this one."""
        size = packed_size(head, buffers)
        value = memoryview(bytearray(size))
        pack(value, head, buffers)
        self.values[id] = value.toreadonly()
        return size, ()

    def view(
        self, id: ObjectId, stored: Stored, owner: tuple[ProcessId, str], deadline: float | None = None
    ) -> memoryview:
        """Return a read-only view of an object, at once."""
        return self.values[id]

    def delete(self, ids: Iterable[ObjectId]) -> None:
        """Forget objects; views of them stay good."""
        for id in ids:
            self.values.pop(id, None)

    def drain_released(self) -> None:
        """Views are not counted."""


class InProcessOwnership(Ownership):
    """Owns every object here, so that a reference that travels needs no registration."""

    def carry(self, inner: Iterable[ObjectEntry], receiver: ProcessId, key: bytes) -> Carried:
        """Return what to put into a message about references that the sender keeps alive meanwhile."""
        return [(entry.id, self.process.id, "") for entry in inner]

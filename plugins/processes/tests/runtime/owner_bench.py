"""The objects of one process, and all that it says to other processes and to stores."""

from __future__ import annotations

import pickle
import threading
from types import SimpleNamespace
from typing import Any

from kernel.runtime.object_entry import FAILED, INLINE, PENDING, ObjectEntry
from kernel_engine.objects.ownership import Ownership
from kernel_spec.ids import ObjectId, ProcessId

ME, OWNER, OTHER = ProcessId(b"me------"), ProcessId(b"owner---"), ProcessId(b"other---")
ID, SECOND = ObjectId(b"object-1"), ObjectId(b"object-2")
HERE, THERE, ELSEWHERE = "here:1", "there:1", "elsewhere:1"


class Bench:
    """The table of one process, and what it said to other processes and to stores."""

    def __init__(self) -> None:
        self.said: list[tuple[ProcessId, Any]] = []
        self.deleted: list[tuple[str, list[ObjectId]]] = []
        self.kept: list[Any] = []
        self.gone: set[ProcessId] = set()
        self.process: Any = SimpleNamespace(
            id=ME, address="/me", lock=threading.RLock(), handlers={}, on_peer_lost=[], on_peer_met=None,
            on_place_lost=[], identity=SimpleNamespace(gateway=HERE), peer=self._peer,
            send=lambda connection, message: self.said.append((connection.info.id, message)),
            after_batch=lambda leftovers, function: None,
        )  # fmt: skip
        store: Any = SimpleNamespace(
            drain_released=lambda: None,
            delete=lambda ids: self.deleted.append(("", ids)),
            delete_at=lambda place, ids: self.deleted.append((place, ids)),
            keep_at=lambda place, id: self.kept.append((place, id)),
        )
        self.table = Ownership(self.process, store)

    def _peer(self, process: ProcessId, address: str = "") -> Any:
        if process in self.gone:
            raise ConnectionRefusedError("nobody there")
        return SimpleNamespace(info=SimpleNamespace(id=process), closed=False)

    def deliver(self, sender: ProcessId, *message: Any) -> None:
        self.process.handlers[message[0]](SimpleNamespace(info=SimpleNamespace(id=sender), closed=False), message)

    def take(self) -> list[Any]:
        said, self.said = self.said, []
        return said

    def tell_stores(self) -> list[tuple[str, list[ObjectId]]]:
        self.table.drain()
        deleted, self.deleted = self.deleted, []
        return deleted

    def own(self, id: ObjectId = ID, state: int = INLINE, value: Any = b"value") -> ObjectEntry:
        """Have an object of our own, with a reference to it."""
        entry = self.table.objects[id] = ObjectEntry(id, 1)
        if state != PENDING:
            entry.resolve(state, value)
        return entry

    def borrow(self, id: ObjectId = ID) -> ObjectEntry:
        """Have a reference to an object of the owner."""
        self.table.adopt(id, OWNER, "/owner", None)
        entry = self.table.objects[id]
        entry.local += 1  # the reference that was made is collected
        self.take()
        return entry

    def drop(self, entry: ObjectEntry) -> None:
        entry.local -= 1
        self.table.reconsider(entry)

    def lose(self, process: ProcessId) -> None:
        for function in self.process.on_peer_lost:
            function(SimpleNamespace(id=process), "killed")


def error_of(entry: ObjectEntry) -> Exception:
    """Return why an object has failed."""
    assert entry.state == FAILED
    error: Exception = pickle.loads(entry.value[1])
    return error

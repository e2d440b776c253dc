"""Limit what single processes may hold in the object store. Pure: it is given `StoredObject` rows.

A process with a quota is charged for every object that it makes, until that object's owner no longer needs it. When a
new object does not fit, weak objects that the same process made are dropped, the oldest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field

from kernel_processes.node.worker_pool import WorkerRecord
from kernel_spec.byte_sizes import readable
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import ObjectStoreFullError
from kernel_spec.ids import ObjectId, ProcessId
from kernel_spec.store import StoredObject


@dataclass(slots=True)
class _Account:
    """Holds the quota of one process, the bytes that it holds, and its objects; the oldest first."""

    limit: int
    name: str
    used: int = 0
    made: dict[ObjectId, int] = field(default_factory=dict)


class StoreQuotas:
    """Holds the quotas of one node's store and the bytes charged to them."""

    def __init__(self) -> None:
        self._accounts: dict[ProcessId, _Account] = {}
        self._maker: dict[ObjectId, _Account] = {}
        self._requests: dict[tuple[ProcessId, int], ObjectId] = {}
        self.dropped: set[ObjectId] = set()
        """Weak objects that made room for others of their maker, while they have an owner."""

    def limit(self, process: ProcessId, size: int, name: str) -> None:
        """Let a process hold `size` bytes from now on (0: any number), by a quota that people call `name`."""
        account = self._accounts.pop(process, None)
        for object in account.made if account is not None else ():
            del self._maker[object]
        if size:
            self._accounts[process] = _Account(size, name)

    def limit_worker(self, worker: WorkerRecord) -> None:
        """Let a worker hold what it was leased with."""
        self.limit(worker.id, worker.work.store, f"the object_store_memory of {worker.work.name or 'what it runs'}")

    def is_limited(self, process: ProcessId) -> bool:
        """Return whether a process has a quota."""
        return process in self._accounts

    def room_for(
        self, process: ProcessId, object: ObjectId, size: int, stored: Callable[[], Iterable[StoredObject]]
    ) -> list[ObjectId]:
        """Return what must be dropped (and is forgotten here) so that a process may make an object of `size` bytes.

        `stored` says what the store holds. Raises ObjectStoreFullError when there is no room all the same.
        """
        account = self._accounts[process]
        over = account.used - account.made.get(object, 0) + size - account.limit
        if over <= 0:
            return []
        rows = {row.object: row for row in stored() if row.object in account.made}
        drop: list[ObjectId] = []
        for one, held in account.made.items():
            row = rows.get(one)
            if over > 0 and one != object and (row is None or (row.weak and not row.pins and row.state != "writing")):
                over -= held  # An object without a row was dropped by the store.
                drop.append(one)
        if over > 0:
            raise ObjectStoreFullError(
                f"no space for object {object.hex()} of {readable(size)}: process {process.hex()} may hold "
                f"{readable(account.limit)} in the object store ({account.name}) and holds {readable(account.used)} in "
                f"{len(account.made)} objects. Drop references that are no longer needed, put less at a time, or raise "
                "the quota"
            )
        self.gone(drop)
        self.dropped.update(drop)
        return drop

    def asked(self, process: ProcessId, request: int, object: ObjectId, size: int) -> None:
        """A process that has a quota has asked the store for space."""
        self.gone([object])
        account = self._maker[object] = self._accounts[process]
        account.made[object] = size
        account.used += size
        self._requests[process, request] = object

    def answered(self, process: ProcessId, request: int, failed: bool) -> None:
        """The store has answered a request of a process."""
        object = self._requests.pop((process, request), None)
        if failed and object is not None:
            self.gone([object])

    def gone(self, objects: Iterable[ObjectId]) -> None:
        """Objects are no longer needed, or were given up."""
        for object in objects:
            self.dropped.discard(object)
            account = self._maker.pop(object, None)
            if account is not None:
                account.used -= account.made.pop(object)

    def left(self, process: ProcessId) -> None:
        """A process is gone, and its quota with it."""
        self.limit(process, 0, "")
        for key in [key for key in self._requests if key[0] == process]:
            del self._requests[key]

    def validate(self) -> None:
        """Raise AssertionError when the books do not add up."""
        for process, account in self._accounts.items():
            assert account.used == sum(account.made.values()), f"the account of {process.hex()} does not add up"
            assert account.used <= account.limit, f"{process.hex()} holds more than its quota"
            assert all(self._maker.get(object) is account for object in account.made), "an object is misfiled"
        assert sum(len(account.made) for account in self._accounts.values()) == len(self._maker), "a stray object"
        assert not self.dropped & self._maker.keys(), "an object that was dropped is charged"

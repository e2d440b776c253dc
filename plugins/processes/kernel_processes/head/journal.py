"""Write the durable state of a head into the metadata store, and read it when another head takes over.

Only state that no other process has is written: actors, placement groups, jobs, environments, and the nodes of the
session. Leases, processes and requests are reported by the nodes themselves when they connect to the new head.
"""

from __future__ import annotations

import pickle
from collections.abc import Container, Iterator, Mapping
from typing import Any

from kernel.logs import Logger
from kernel_processes.head.actor_records import ActorRecord
from kernel_processes.head.groups import GroupRecord
from kernel_processes.head.job_table import JobRecord
from kernel_spec.errors import HeadReplacedError, MetadataError
from kernel_spec.ids import ActorId, GroupId, NodeId
from kernel_spec.metadata import MetadataStore

_ACTORS, _GROUPS, _JOBS = "head:actors", "head:placement_groups", "head:jobs"
_ENVIRONMENTS, _NODES = "head:environments", "head:nodes"
_CLIENTS = "head:remote_drivers"
_BESIDE, _ADDRESSES = "head:beside", "head:addresses"


class Journal:
    """Writes to a durable metadata store; with another, it does nothing.

    While the store fails (its disk is full), the session goes on, and the changes are kept in memory until they can be
    written again (`catch_up`): if the head dies meanwhile, they are lost.
    """

    def __init__(self, store: MetadataStore, log: Logger | None = None) -> None:
        self._store = store
        self._log = log or Logger("kernel.head")
        self.durable = store.durable
        self._behind: dict[tuple[str, bytes], bytes | None] = {}
        """Table and key to the value that must still be written; None if it must be removed."""

    @property
    def behind(self) -> int:
        """The number of changes that are not written yet."""
        return len(self._behind)

    def catch_up(self) -> None:
        """Write the changes that could not be written before."""
        while self._behind:
            (table, key), value = next(iter(self._behind.items()))
            try:
                self._write(table, key, value)
            except HeadReplacedError:
                raise
            except MetadataError:
                return
            del self._behind[table, key]
            if not self._behind:
                self._log.warning("the head's metadata can be written again")

    def _note(self, table: str, key: bytes, value: object) -> None:
        if self.durable:
            self._put(table, key, pickle.dumps(value))

    def _put(self, table: str, key: bytes, value: bytes | None) -> None:
        """Store `value` under a key, or remove the key; later, if the store fails now."""
        if not self.durable:
            return
        if not self._behind:
            try:
                self._write(table, key, value)
                return
            except HeadReplacedError:
                raise
            except MetadataError as error:
                self._log.error("the head can't write its metadata, and goes on without", reason=str(error))
        self._behind.pop((table, key), None)
        self._behind[table, key] = value

    def _write(self, table: str, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._store.delete(table, key)
        else:
            self._store.put(table, key, value)

    def write_actors(self, changed: set[ActorId], actors: Mapping[ActorId, ActorRecord]) -> None:
        """Write the actors that have `changed`, and remove those that are not in `actors`. Empties the set."""
        self._write_changes(_ACTORS, changed, actors)

    def write_groups(self, changed: set[GroupId], groups: Mapping[GroupId, GroupRecord]) -> None:
        """Write the placement groups that have `changed`, and remove those that are not in `groups`, likewise."""
        self._write_changes(_GROUPS, changed, groups)

    def _write_changes(self, table: str, changed: set[Any], records: Mapping[Any, object]) -> None:
        while changed:
            id = changed.pop()
            record = records.get(id)
            if record is not None:
                self._note(table, id, record)
            else:
                self._put(table, id, None)

    def job(self, job: JobRecord) -> None:
        """A job is new, or has changed."""
        self._note(_JOBS, job.id, job)

    def forget_job(self, id: bytes) -> None:
        """A job is remembered no longer."""
        self._put(_JOBS, id, None)

    def environment(self, key: str, description: Mapping[str, Any]) -> None:
        """An environment was asked for."""
        self._note(_ENVIRONMENTS, key.encode(), dict(description))

    def node(self, id: NodeId, cause: str = "") -> None:
        """A node has joined, or (with a cause) is gone."""
        self._put(_NODES, id, cause.encode())

    def address(self, id: NodeId, address: str) -> None:
        """Write the address at which others reach a node."""
        self._put(_ADDRESSES, id, address.encode())

    def addresses_of(self, nodes: Container[NodeId]) -> set[str]:
        """Return the addresses at which others reached these nodes."""
        found = {value.decode() for key, value in self._store.scan(_ADDRESSES) if NodeId(key) in nodes}
        return found - {""}

    def client(self, id: NodeId, cause: str = "") -> None:
        """The agent of a remote driver has joined, or (with a cause) is gone."""
        self._put(_CLIENTS, id, cause.encode())

    def forget_client(self, id: NodeId) -> None:
        """The agent of a remote driver that is gone is remembered no longer."""
        self._put(_CLIENTS, id, None)

    def beside(self, node: NodeId) -> None:
        """Write which node is beside this head. Another node, beside an earlier head, has ended with that head."""
        if not self.durable:
            return
        earlier = self._store.get(_BESIDE, b"node")
        if earlier is not None and earlier != node and self._store.get(_NODES, earlier) == b"":
            self.node(NodeId(earlier), "it was beside a head that was killed with it")
        self._put(_BESIDE, b"node", node)

    def actors(self) -> Iterator[ActorRecord]:
        """Return the actors that were written down."""
        return (pickle.loads(value) for _, value in self._store.scan(_ACTORS))

    def groups(self) -> Iterator[GroupRecord]:
        """Return the placement groups that were written down."""
        return (pickle.loads(value) for _, value in self._store.scan(_GROUPS))

    def jobs(self) -> Iterator[JobRecord]:
        """Return the jobs that were written down."""
        return (pickle.loads(value) for _, value in self._store.scan(_JOBS))

    def environments(self) -> Iterator[Mapping[str, Any]]:
        """Return the environments that were written down."""
        return (pickle.loads(value) for _, value in self._store.scan(_ENVIRONMENTS))

    def nodes(self) -> dict[NodeId, str]:
        """Return the nodes that were written, with the cause of death of those that are gone."""
        return {NodeId(key): value.decode() for key, value in self._store.scan(_NODES)}

    def clients(self) -> dict[NodeId, str]:
        """Return the agents of remote drivers that were written, with the cause of death of those that are gone."""
        return {NodeId(key): value.decode() for key, value in self._store.scan(_CLIENTS)}

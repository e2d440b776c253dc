"""What a head writes down, so that another one can carry on after its death; and reading it again.

Only what nobody else knows is written: actors, placement groups, jobs, environments, and which nodes there were.
Leases, processes and requests are told by the nodes themselves when they come back.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import Any

from kernel.control.actor_records import ActorRecord
from kernel.control.groups import GroupRecord
from kernel.control.job_table import Job
from kernel_spec.ids import NodeId
from kernel_spec.metadata import MetadataStore

_ACTORS, _GROUPS, _JOBS = "head:actors", "head:placement_groups", "head:jobs"
_ENVIRONMENTS, _NODES = "head:environments", "head:nodes"
_CLIENTS = "head:remote_drivers"
_BESIDE = "head:beside"


class Journal:
    """Writes to a durable metadata store; with another, it does nothing."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.durable = store.durable

    def actor(self, record: ActorRecord) -> None:
        """An actor is new, or has changed."""
        if self.durable:
            self._store.put(_ACTORS, record.id, pickle.dumps(record))

    def forget_actor(self, id: bytes) -> None:
        """A dead actor is remembered no longer."""
        if self.durable:
            self._store.delete(_ACTORS, id)

    def group(self, record: GroupRecord) -> None:
        """A placement group is new, or has changed."""
        if self.durable:
            self._store.put(_GROUPS, record.id, pickle.dumps(record))

    def forget_group(self, id: bytes) -> None:
        """A placement group that is over is remembered no longer."""
        if self.durable:
            self._store.delete(_GROUPS, id)

    def job(self, job: Job) -> None:
        """A job is new, or has changed."""
        if self.durable:
            self._store.put(_JOBS, job.id, pickle.dumps(job))

    def forget_job(self, id: bytes) -> None:
        """A job is remembered no longer."""
        if self.durable:
            self._store.delete(_JOBS, id)

    def environment(self, key: str, description: Mapping[str, Any]) -> None:
        """An environment was asked for."""
        if self.durable:
            self._store.put(_ENVIRONMENTS, key.encode(), pickle.dumps(dict(description)), overwrite=False)

    def node(self, id: NodeId, cause: str = "") -> None:
        """A node has joined, or (with a cause) is gone."""
        if self.durable:
            self._store.put(_NODES, id, cause.encode())

    def client(self, id: NodeId, cause: str = "") -> None:
        """The agent of a remote driver has joined, or (with a cause) is gone."""
        if self.durable:
            self._store.put(_CLIENTS, id, cause.encode())

    def forget_client(self, id: NodeId) -> None:
        """The agent of a remote driver that is gone is remembered no longer."""
        if self.durable:
            self._store.delete(_CLIENTS, id)

    def beside(self, node: NodeId) -> None:
        """Say which node is beside this head. The one beside an earlier head has ended, if it is another."""
        if not self.durable:
            return
        earlier = self._store.get(_BESIDE, b"node")
        if earlier is not None and earlier != node and self._store.get(_NODES, earlier) == b"":
            self.node(NodeId(earlier), "it was beside a head that was killed with it")
        self._store.put(_BESIDE, b"node", node)

    def actors(self) -> Iterator[ActorRecord]:
        """Return the actors that were written down."""
        return (pickle.loads(value) for _, value in self._store.scan(_ACTORS))

    def groups(self) -> Iterator[GroupRecord]:
        """Return the placement groups that were written down."""
        return (pickle.loads(value) for _, value in self._store.scan(_GROUPS))

    def jobs(self) -> Iterator[Job]:
        """Return the jobs that were written down."""
        return (pickle.loads(value) for _, value in self._store.scan(_JOBS))

    def environments(self) -> Iterator[Mapping[str, Any]]:
        """Return the environments that were written down."""
        return (pickle.loads(value) for _, value in self._store.scan(_ENVIRONMENTS))

    def nodes(self) -> dict[NodeId, str]:
        """Return the nodes there were, with the cause of death of those that are gone."""
        return {NodeId(key): value.decode() for key, value in self._store.scan(_NODES)}

    def clients(self) -> dict[NodeId, str]:
        """Return the agents of remote drivers there were, with the cause of death of those that are gone."""
        return {NodeId(key): value.decode() for key, value in self._store.scan(_CLIENTS)}

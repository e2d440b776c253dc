"""This process's way to the node's object store: requests go through the agent, bytes through shared memory."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kernel.runtime import operations as op
from kernel.runtime.layout import pack, packed_size
from kernel.runtime.process import Process
from kernel.transport.connection import Connection, Message
from kernel.transport.descriptors import fetch_descriptors
from kernel_spec.errors import KernelError
from kernel_spec.ids import ObjectId, ProcessId
from kernel_spec.serialization import Buffer
from kernel_spec.store import ObjectStore, StoreClient


class StoreAccess:
    """Writes, reads and unpins large objects. `write` and `view` block; neither is called from a handler."""

    def __init__(self, process: Process, store: Callable[[], ObjectStore]) -> None:
        self._process = process
        self._store = store
        self._client: StoreClient | None = None
        self._released: deque[ObjectId] = deque()
        self.drop_idle_views: Callable[[], None] = lambda: None
        process.handlers[op.STORE_RELEASE_IDLE] = self._release_idle

    def use(self, store: Callable[[], ObjectStore]) -> None:
        """Use the store plugin that the session chose."""
        self._store = store

    def write(self, id: ObjectId, head: bytes, buffers: Sequence[Buffer], owner: ProcessId, weak: bool = False) -> int:
        """Store a serialized value and return its size in bytes. Raises an `ObjectStoreError` when it can't."""
        process = self._process
        client = self._client or self._attach()
        size = packed_size(head, buffers)
        with process.lock:
            agent = process.agent
            assert agent is not None
            request = process.expect_reply(agent)
            process.tell_agent((op.STORE_CREATE, request.number, id, size, owner, weak))
        location = pickle.loads(process.result(request))
        try:
            with client.writable(location, size) as target:
                pack(target, head, buffers)
        except BaseException:
            with process.lock:
                process.tell_agent((op.STORE_ABORT, id))
            raise
        with process.lock:
            process.tell_agent((op.STORE_SEAL, id, False))
        if owner != process.id:
            agent.flush()  # the owner must not hear of a result that this process can still take to its grave
        return size

    def view(self, id: ObjectId) -> memoryview:
        """Pin an object and return a read-only view of it; the pin ends with the last view derived from it."""
        process = self._process
        client = self._client or self._attach()
        with process.lock:
            agent = process.agent
            assert agent is not None
            request = process.expect_reply(agent)
            process.tell_agent((op.STORE_PIN, request.number, id))
        location, size = pickle.loads(process.result(request))
        released = self._released
        return client.readable(location, size, lambda: released.append(id))

    def drain_released(self) -> None:
        """Tell the store about views that are gone. Under the lock."""
        released = self._released
        while released:
            self._process.tell_agent((op.STORE_UNPIN, released.popleft()))

    def delete(self, ids: list[ObjectId]) -> None:
        """Tell the store that nobody references these objects. Under the lock."""
        self.drain_released()
        self._process.tell_agent((op.STORE_DELETE, ids))

    def close(self) -> None:
        """Unmap the store."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _attach(self) -> StoreClient:
        identity = self._process.identity
        descriptors, data = fetch_descriptors(self._process.agent_address, identity.token)
        options: dict[str, Any] = pickle.loads(data)
        if isinstance(options, KernelError):
            raise options
        client = self._store().open_client(descriptors, options)
        if self._client is None:
            self._client = client
        return self._client

    def _release_idle(self, connection: Connection, message: Message) -> None:
        self.drop_idle_views()
        self.drain_released()

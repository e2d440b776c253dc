"""Access the node's object store: requests go through the agent, bytes through shared memory."""

from __future__ import annotations

import errno
import os
import pickle
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from kernel.logs import Logger
from kernel.runtime.critical_sections import critical, is_from_outside, take_in
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message
from kernel_engine.objects.value_placement import Stored
from kernel_engine.serialization.layout import pack, packed_size
from kernel_processes.protocol.overflow_files import OverflowFile, map_readable, map_writable
from kernel_processes.runtime.peer_requests import PeerRequest
from kernel_processes.runtime.process import Process
from kernel_processes.transport.connection import Connection
from kernel_processes.transport.descriptors import fetch_descriptors
from kernel_spec.errors import GetTimeoutError, KernelError, ObjectLostError, ObjectStoreError, ProtocolError
from kernel_spec.ids import ObjectId, ProcessId
from kernel_spec.serialization import Buffer

if TYPE_CHECKING:
    from kernel_spec.store import ObjectStore, StoreClient

PATIENCE_SECONDS = 6.0
"""Seconds to wait for the store before a warning says why; the intervals between later warnings grow.

This is longer than the agent waits before it fails a hopeless request, whose error then explains everything.
"""
LEAST_SECONDS = 1.0
"""Minimum time in seconds to wait for the store, whatever the deadline, so that values in memory can be read."""
_QUESTION_SECONDS = 1.0


class StoreAccess:
    """Writes, reads and unpins large objects. `write` and `view` block; neither is called from a handler.

    If they end early (by a signal, a cancellation, a deadline), nothing is left behind in the store.
    """

    def __init__(self, process: Process, store: Callable[[], ObjectStore]) -> None:
        self._process = process
        self._store = store
        self._client: StoreClient | None = None
        self._released: deque[ObjectId] = deque()
        self._log = Logger("kernel")
        self.drop_idle_views: Callable[[], None] = lambda: None
        process.handlers[op.STORE_RELEASE_IDLE] = self._release_idle
        process.after_batch(self._released, self.drain_released)

    def use(self, store: Callable[[], ObjectStore]) -> None:
        """Use the store plugin that the session chose."""
        self._store = store

    def write(
        self, id: ObjectId, head: bytes, buffers: Sequence[Buffer], owner: ProcessId, weak: bool = False
    ) -> Stored:
        """Store a serialized value on this node; return its size and place. Raises `ObjectStoreError` if it can't."""
        process = self._process
        client = self._client or self._attach()
        size = packed_size(head, buffers)
        request = None
        try:
            request = self._ask(op.STORE_CREATE, id, size, owner, weak)
            location = self._answer(request, id)
            in_file = type(location) is OverflowFile
            with map_writable(location, size) if in_file else _writable(client, location, size) as target:
                pack(target, head, buffers)
            with process.lock:
                process.tell_agent((op.STORE_SEAL, id, False))
        except BaseException:
            if request is None or not request.failed:
                with process.lock:
                    process.tell_agent((op.STORE_ABORT, id))
            raise
        if owner != process.id:
            # Do not announce a result that would be lost if this process died now.
            request.connection.flush()
        gateway = process.identity.gateway
        return size, (gateway,) if gateway else ()

    def view(
        self, id: ObjectId, stored: Stored, owner: tuple[ProcessId, str], deadline: float | None = None
    ) -> memoryview:
        """Pin an object and return a read-only view of it; the pin ends with the last view derived from it.

        One that is `stored` on other nodes only is fetched first, and reported to its `owner` (id, address).
        Raises GetTimeoutError when it is not in memory by `deadline` (monotonic seconds), `LEAST_SECONDS` granted, and
        ObjectLostError when no node has it any more.
        """
        process = self._process
        client = self._client or self._attach()
        unpin = partial(self._released.append, id)
        request = None
        try:
            if stored[1]:
                request = self._ask(op.STORE_FETCH, id, *stored, *owner)
            else:
                request = self._ask(op.STORE_PIN, id)
            location, size = self._answer(request, id, deadline)
        except BaseException:
            if request is not None:
                process.withdraw(request, unpin)
            raise
        try:
            return _map(client, location, size, unpin)
        except ObjectLostError:  # Its file is gone: readers must not be sent there again.
            with process.lock:
                self.delete([id])
            request.connection.flush()
            raise

    def drain_released(self) -> None:
        """Tell the store about views that are gone. Under the lock."""
        released = self._released
        while released:
            self._process.tell_agent((op.STORE_UNPIN, released.popleft()))

    def delete(self, ids: list[ObjectId]) -> None:
        """Tell the store that these objects have no references. Under the lock."""
        self.drain_released()
        self._process.tell_agent((op.STORE_DELETE, ids))

    def delete_at(self, place: str, ids: list[ObjectId]) -> None:
        """Tell the store of another node the same. Under the lock."""
        self._process.tell_agent((op.STORE_DELETE_AT, place, ids))

    def keep_at(self, place: str, id: ObjectId) -> None:
        """Tell the store of a node that it has the copy that counts. Under the lock."""
        self._process.tell_agent((op.STORE_KEEP_AT, place, id))

    def close(self) -> None:
        """Unmap the store."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _ask(self, operation: int, *details: Any) -> PeerRequest:
        """Send a request to the store; `_answer` waits for what it says."""
        process = self._process
        with process.lock:
            assert process.agent is not None
            request = process.expect_reply(process.agent)
            process.tell_agent((operation, request.number, *details))
        return request

    def _answer(self, request: PeerRequest, id: ObjectId, deadline: float | None = None) -> Any:
        """Block for the store's answer; say what it waits for when it takes long."""
        process = self._process
        if deadline is not None:
            deadline = max(deadline, monotonic() + LEAST_SECONDS)
        patience = PATIENCE_SECONDS
        while True:
            look = monotonic() + patience
            if process.pump.wait(request, look if deadline is None else min(look, deadline)):
                return pickle.loads(process.result(request))
            reason = self._explain(id)
            if request.remaining <= 0:
                continue
            if deadline is not None and monotonic() >= deadline:
                raise GetTimeoutError(f"get() ran out of time: object {id.hex()} is ready, but not in memory: {reason}")
            self._log.warning("still waiting for the object store", object=id.hex(), reason=reason, pid=os.getpid())
            patience = min(patience * 2, 300.0)

    def _explain(self, id: ObjectId) -> str:
        try:
            return str(self._process.call_agent("explain_storage", id, timeout=_QUESTION_SECONDS))
        except (KernelError, TimeoutError) as error:
            return f"the node agent could not say why: {error}"

    def _why_no_store(self, error: OSError | ProtocolError) -> KernelError:
        """Return what it means that the agent has not passed the store's descriptors on: most often, that it died."""
        if isinstance(error, TimeoutError):
            return ObjectStoreError(
                f"the node agent at {self._process.agent_address} lives, but did not pass the object store on: it is "
                "stopped or overloaded (`kernel status` says more); try again"
            )
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return ObjectStoreError(
                f"the object store can't be opened: {error.strerror}; close files, or raise the limit (`ulimit -n`)"
            )
        self._process.lose_agent(error)
        return self._process.session_end.error()

    def _attach(self) -> StoreClient:
        identity = self._process.identity
        try:
            descriptors, data = fetch_descriptors(self._process.agent_address, identity.token)
        except (OSError, ProtocolError) as error:
            raise self._why_no_store(error) from error
        options: dict[str, Any] = pickle.loads(data)
        if isinstance(options, KernelError):
            raise options
        try:
            client = self._store().open_client(descriptors, options)
        except Exception as error:
            raise _fault("open_client", error) from error
        take_in(type(client))
        if self._client is None:
            self._client = client
        return self._client

    def _release_idle(self, connection: Connection, message: Message) -> None:
        self.drop_idle_views()
        self.drain_released()


@critical
def _map(client: StoreClient, location: Any, size: int, unpin: Callable[[], None]) -> memoryview:
    """Return a view of a pinned object, which has the pin from then on."""
    try:
        if type(location) is OverflowFile:
            return map_readable(location, size, unpin)
        try:
            return client.readable(location, size, unpin)
        except Exception as error:
            raise _fault("readable", error) from error
    except BaseException:
        unpin()
        raise


def _writable(client: StoreClient, location: Any, size: int) -> memoryview:
    try:
        return client.writable(location, size)
    except Exception as error:
        raise _fault("writable", error) from error


def _fault(method: str, error: Exception) -> Exception:
    """Return what to raise for what the client of the object store raised: its errors and interruptions as they are."""
    if isinstance(error, KernelError | MemoryError) or is_from_outside(error):
        return error
    from kernel.plugin_faults import told  # Only a fault needs it.

    return ObjectStoreError(told(f"the object store plugin: its {method}()", error))

"""The object store inside the agent: messages in, the store plugin decides, replies and disk work out."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kernel.runtime import operations as op
from kernel.transport.connection import Connection, Message
from kernel.transport.reactor import Reactor
from kernel_spec import store as contract
from kernel_spec.errors import KernelError, SpillError
from kernel_spec.ids import ProcessId
from kernel_spec.spill import SpillTarget

PATIENCE_SECONDS = 5.0
"""How long a request for space may wait without anything moving before it fails."""


class StoreService:
    """Serves the processes of this node. `send(process, message)` reaches one, `broadcast(message)` all."""

    def __init__(
        self,
        server: contract.StoreServer,
        spill: SpillTarget,
        reactor: Reactor,
        send: Callable[[ProcessId, Message], None],
        broadcast: Callable[[Message], None],
        observe: Callable[[str, str, bytes, dict[str, Any]], None],
    ) -> None:
        self.server = server
        self._spill = spill
        self._reactor = reactor
        self._send = send
        self._broadcast = broadcast
        self._observe = observe
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="spill")
        self._finished: list[contract.StoreEvent] = []
        self._creating: set[tuple[ProcessId, int]] = set()
        self._moved_at = 0.0
        self._watching = False
        self.handlers: dict[int, Callable[[Connection, Message], None]] = {
            op.STORE_CREATE: self._on_create,
            op.STORE_SEAL: self._on_seal,
            op.STORE_ABORT: lambda c, m: self.handle(contract.Abort(c.info.id, m[1])),
            op.STORE_PIN: lambda c, m: self.handle(contract.Pin(c.info.id, m[1], m[2])),
            op.STORE_UNPIN: lambda c, m: self.handle(contract.Unpin(c.info.id, m[1])),
            op.STORE_DELETE: self._on_delete,
        }

    def attach(self, connection: Connection) -> None:
        """Pass the store's descriptors to a client."""
        options = pickle.dumps(dict(self.server.client_options()))
        connection.send_descriptors(self.server.descriptors(), options)

    def client_left(self, client: ProcessId) -> None:
        """A process is gone."""
        self._creating = {asked for asked in self._creating if asked[0] != client}
        self.handle(contract.ClientLeft(client))

    def handle(self, event: contract.StoreEvent) -> None:
        """Let the store decide, and carry it out."""
        self._carry_out(self.server.handle(event))

    def finish_disk_work(self) -> None:
        """Feed back what spill threads have done. Called from the loop."""
        while self._finished:
            self.handle(self._finished.pop(0))

    def close(self) -> None:
        """Stop disk work and free everything."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._spill.close()
        self.server.close()

    def _on_create(self, connection: Connection, message: Message) -> None:
        _, request, object, size, owner, weak = message
        self._creating.add((connection.info.id, request))
        self.handle(contract.Create(connection.info.id, request, object, size, owner, weak))
        if self.server.usage().waiting:
            self._watch()

    def _on_seal(self, connection: Connection, message: Message) -> None:
        self.handle(contract.Seal(connection.info.id, message[1], message[2]))
        self._observe("object", "STORED", message[1], {"process": connection.info.id.hex()})

    def _on_delete(self, connection: Connection, message: Message) -> None:
        self.handle(contract.Delete(message[1]))
        for object in message[1]:
            self._observe("object", "FREED", object, {})

    def _carry_out(self, instructions: list[contract.StoreInstruction]) -> None:
        for step in instructions:
            if isinstance(step, (contract.Reply, contract.Failed)) and (step.client, step.request) in self._creating:
                self._creating.discard((step.client, step.request))
                self._moved_at = self._reactor.clock()
            if isinstance(step, contract.Reply):
                self._send(step.client, (op.REPLY, step.request, pickle.dumps(step.value)))
            elif isinstance(step, contract.Failed):
                self._send(step.client, (op.REPLY_ERROR, step.request, pickle.dumps(step.error)))
            elif isinstance(step, contract.WriteSpill):
                self._threads.submit(self._in_thread, self._write, step)
            elif isinstance(step, contract.ReadSpill):
                self._threads.submit(self._in_thread, self._read, step)
            elif isinstance(step, contract.DeleteSpill):
                self._threads.submit(self._spill.delete, step.uri)
            else:
                self._broadcast((op.STORE_RELEASE_IDLE,))

    def _in_thread(self, work: Callable[[Any], contract.StoreEvent], step: Any) -> None:
        self._finished.append(work(step))
        self._reactor.wake()

    def _write(self, step: contract.WriteSpill) -> contract.StoreEvent:
        try:
            with self.server.view(step.location, step.size) as data:
                return contract.SpillDone(step.object, self._spill.write(step.object, data))
        except Exception as error:
            return contract.SpillFailed(step.object, _as_store_error(error))

    def _read(self, step: contract.ReadSpill) -> contract.StoreEvent:
        try:
            with self.server.view(step.location, step.size) as data:
                self._spill.read_into(step.uri, data)
        except Exception as error:
            return contract.RestoreFailed(step.object, _as_store_error(error))
        return contract.RestoreDone(step.object)

    def _watch(self) -> None:
        if not self._watching:
            self._watching = True
            self._moved_at = self._reactor.clock()
            self._reactor.call_later(PATIENCE_SECONDS, self._look)

    def _look(self) -> None:
        self._watching = False
        if not self.server.usage().waiting:
            return
        patience = self._moved_at + PATIENCE_SECONDS - self._reactor.clock()
        if patience <= 0:
            self._carry_out(self.server.give_up_waiting())
            patience = PATIENCE_SECONDS
        self._watching = True
        self._reactor.call_later(patience, self._look)


def _as_store_error(error: Exception) -> KernelError:
    if isinstance(error, KernelError):
        return error
    return SpillError(f"spilling failed: {type(error).__name__}: {error}")

"""Serve the object store in the agent: messages come in, the store plugin decides, replies and disk work go out."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message
from kernel_processes.node.overflow_server import OverflowServer
from kernel_processes.node.overflow_table import FileFailed, FileMade
from kernel_processes.node.store_clients import LocalAnswer, StoreClients
from kernel_processes.node.store_disk import DiskEvent, StoreDisk
from kernel_processes.node.store_patience import StorePatience
from kernel_processes.node.store_quotas import StoreQuotas
from kernel_processes.transport.connection import Connection
from kernel_processes.transport.reactor import Reactor
from kernel_spec import observers
from kernel_spec import store as contract
from kernel_spec.errors import ObjectLostError, ObjectStoreFullError, OwnerDiedError, PluginError
from kernel_spec.ids import ObjectId, ProcessId

NEWS_SECONDS = 0.1
"""Seconds for processes to release objects before a quota refuses a new object."""


class StoreService:
    """Serves the object store to its clients: `server` decides, the answers go to `clients` and the work to `disk`.

    `observe(kind, state, id, detail)` is told what happens to objects.
    """

    def __init__(
        self,
        server: OverflowServer,
        disk: StoreDisk,
        clients: StoreClients,
        observe: Callable[[str, str, bytes, dict[str, Any]], None],
        reactor: Reactor,
    ) -> None:
        self.server = server
        self.quotas = StoreQuotas()
        self._disk = disk
        self._clients = clients
        self._observe = observe
        self._reactor = reactor
        self._postponed: set[ObjectId] = set()
        """Objects that wait for room in the quota of their makers."""
        self._patience = StorePatience()
        self._watching = False
        self.handlers: dict[int, Callable[[Connection, Message], None]] = {
            op.STORE_CREATE: self._on_create,
            op.STORE_SEAL: lambda c, m: self.seal(contract.Seal(c.info.id, m[1], m[2])),
            op.STORE_ABORT: self._on_abort,
            op.STORE_PIN: self._on_pin,
            op.STORE_UNPIN: lambda c, m: self.handle(contract.Unpin(c.info.id, m[1])),
            op.STORE_DELETE: lambda c, m: self.delete(m[1]),
        }

    def bytes_used(self) -> int:
        """Return how many bytes the store holds."""
        return self.server.usage().used

    def attach(self, connection: Connection) -> None:
        """Pass the store's descriptors to a client."""
        try:
            descriptors, options = self.server.descriptors(), dict(self.server.client_options())
        except PluginError as error:
            descriptors, options = [], error
        connection.send_descriptors(descriptors, pickle.dumps(options))

    def serve_locally(self, client: ProcessId, answer: LocalAnswer) -> None:
        """Take a part of the agent as a client: its answers are calls, after all else that an event led to."""
        self._clients.serve_locally(client, answer)

    def create(self, event: contract.Create) -> None:
        """Let an object be created, unless its owner has ended."""
        if self._clients.have_lost(event.owner):
            self._carry_out([contract.Failed(event.client, event.request, _owner_died(event.object, event.owner))])
        elif self.quotas.is_limited(event.client):
            self._create_within_quota(event, patient=True)
        else:
            self.handle(event)

    def seal(self, event: contract.Seal) -> None:
        """Let an object be complete."""
        self.handle(event)
        self._observe(observers.OBJECT, observers.STORED, event.object, {"process": event.client.hex()})

    def delete(self, objects: Sequence[ObjectId]) -> None:
        """Their owner counts no references to these objects."""
        self.quotas.gone(objects)
        self.handle(contract.Delete(objects))
        for object in objects:
            self._observe(observers.OBJECT, observers.FREED, object, {})

    def keep(self, object: ObjectId) -> None:
        """A copy that could be dropped is the one that counts now."""
        self.handle(contract.Keep(object))

    def client_left(self, client: ProcessId) -> None:
        """A process is gone."""
        self.quotas.left(client)
        self.handle(contract.ClientLeft(client))

    def handle(self, event: contract.StoreEvent | FileMade | FileFailed) -> None:
        """Let the store decide, and carry it out."""
        instructions = self.server.handle(event)
        self._carry_out(instructions)
        if instructions and not isinstance(event, contract.Pin):  # A pin that is answered at once is no progress.
            self._patience.moved(self._reactor.clock())
        if self.server.waits and not self._watching and self.server.usage().waiting:
            self._watch()

    def finish_disk_work(self) -> None:
        """Feed back what threads have done. Called from the loop."""
        self._disk.finish()

    def _disk_moved(self, event: DiskEvent) -> None:
        self._patience.moved(self._reactor.clock())
        self.handle(event)
        if isinstance(event, contract.SpillDone):
            self._observe(observers.OBJECT, observers.SPILLED, event.object, {"uri": event.uri})
        elif isinstance(event, contract.RestoreDone):
            self._observe(observers.OBJECT, observers.RESTORED, event.object, {})

    def explain(self, object: ObjectId) -> str:
        """Say what a request for `object` waits for."""
        reasons = []
        usage = self.server.usage()
        if usage.waiting:
            reasons.append(
                f"{usage.used} of the store's {usage.capacity} bytes are taken, {usage.pinned} of them by what is in "
                f"use (`kernel memory` says by whom), objects that wait for room: {usage.waiting}"
            )
        reasons += self._disk.explain(object)
        return "; ".join(reasons) or "another process is writing it"

    def close(self) -> None:
        """Stop disk work and free everything."""
        self._disk.close()
        self.server.close()

    def _on_create(self, connection: Connection, message: Message) -> None:
        _, request, object, size, owner, weak = message
        self.create(contract.Create(connection.info.id, request, object, size, owner, weak))

    def _create_within_quota(self, create: contract.Create, patient: bool) -> None:
        """Charge an object to its maker. When it does not fit, ask all processes once to release unneeded objects."""
        try:
            dropped = self.quotas.room_for(create.client, create.object, create.size, self.server.objects)
        except ObjectStoreFullError as error:
            if patient:
                self._postponed.add(create.object)
                self._clients.release_idle()
                self._reactor.call_later(NEWS_SECONDS, lambda: self._create_again(create))
            else:
                self._carry_out([contract.Failed(create.client, create.request, error)])
            return
        self.quotas.asked(create.client, create.request, create.object, create.size)
        if dropped:
            self.handle(contract.Delete(dropped))
        self.handle(create)

    def _create_again(self, create: contract.Create) -> None:
        given_up = create.object not in self._postponed or self._clients.have_lost(create.client)
        self._postponed.discard(create.object)
        if given_up:
            return
        if self.quotas.is_limited(create.client):
            self._create_within_quota(create, patient=False)
        else:
            self.handle(create)

    def _on_abort(self, connection: Connection, message: Message) -> None:
        self._postponed.discard(message[1])
        self.quotas.gone([message[1]])
        self.handle(contract.Abort(connection.info.id, message[1]))

    def _on_pin(self, connection: Connection, message: Message) -> None:
        _, request, object = message
        if object in self.quotas.dropped:
            self._carry_out([contract.Failed(connection.info.id, request, _dropped(object))])
        else:
            self.handle(contract.Pin(connection.info.id, request, object))

    def _carry_out(self, instructions: list[Any]) -> None:
        local: list[contract.Reply | contract.Failed] = []
        for step in instructions:
            if isinstance(step, contract.Reply | contract.Failed):
                if self._clients.is_local(step.client):
                    local.append(step)
                else:
                    self.quotas.answered(step.client, step.request, failed=isinstance(step, contract.Failed))
                    self._clients.answer(step)
            elif isinstance(step, contract.ReleaseIdle):
                self._clients.release_idle()
            else:
                self._disk.begin(step, self._disk_moved)
        for step in local:  # Last, because they may lead to new events.
            self._clients.answer(step)

    def _watch(self) -> None:
        self._watching = True
        seconds = self._patience.begin(self._reactor.clock(), self.server.no_way_out)
        self._reactor.call_later(seconds, self._look)

    def _look(self) -> None:
        self._watching = False
        if not self.server.usage().waiting:
            return
        seconds = self._patience.left(self._reactor.clock(), self.server.no_way_out)
        if not seconds:
            self._give_up()
            seconds = self._patience.after_giving_up(self.server.no_way_out)
        self._watching = True
        self._reactor.call_later(seconds, self._look)

    def _give_up(self) -> None:
        """Have one request fail; where files can be made, all that wait get one."""
        steps = self.server.give_up_waiting()
        self._carry_out(steps)
        while steps and not self.server.no_way_out and self.server.usage().waiting:
            steps = self.server.give_up_waiting()
            self._carry_out(steps)


def _owner_died(object: ObjectId, owner: ProcessId) -> OwnerDiedError:
    return OwnerDiedError(
        f"object {object.hex()} is not stored: process {owner.hex()}, which was to own it, has ended, and nobody else "
        "can ask for it; what must outlive its caller is put by a process that lives on"
    )


def _dropped(object: ObjectId) -> ObjectLostError:
    return ObjectLostError(
        f"object {object.hex()} was a weak object and was dropped, because the process that made it may hold only so "
        "much in the object store; make it again, put it without weak, or raise the quota"
    )

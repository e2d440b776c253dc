"""The object store inside the agent: messages in, the store plugin decides, replies and disk work out."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message
from kernel_processes.node.overflow_files import OverflowFiles
from kernel_processes.node.overflow_server import OverflowServer
from kernel_processes.node.overflow_table import FileFailed, FileMade, MakeFile, RemoveFile
from kernel_processes.node.spill_work import Done, SpillWork
from kernel_processes.node.store_quotas import StoreQuotas
from kernel_processes.transport.connection import Connection
from kernel_processes.transport.reactor import Reactor
from kernel_spec import observers
from kernel_spec import store as contract
from kernel_spec.byte_sizes import readable
from kernel_spec.errors import ObjectLostError, ObjectStoreFullError, OwnerDiedError, PluginError
from kernel_spec.ids import ObjectId, ProcessId
from kernel_spec.spill import SpillTarget

PATIENCE_SECONDS = 5.0
"""Seconds without any progress after which a request for space fails."""

OVERFLOW_SECONDS = 0.5
"""Seconds without any progress after which a request gets a file instead. It waits PATIENCE_SECONDS at most in all."""

NEWS_SECONDS = 0.1
"""Seconds for processes to release objects before a new object is refused for a quota."""

LocalAnswer = Callable[[int, Any, "Exception | None"], None]
"""Takes a request's number, and the answer or an error."""


class StoreService:
    """Serve the object store to the processes of this node.

    `send(process, message)` reaches one process, `broadcast(message)` all; `has_ended(process)` says whether a process,
    here or elsewhere, has ended. Objects for which the store has no room go into files in the directory `overflow`,
    which is made when it is needed; `warn(text)` tells users so, once.
    """

    def __init__(
        self,
        server: contract.StoreServer,
        spill: SpillTarget,
        reactor: Reactor,
        send: Callable[[ProcessId, Message], None],
        broadcast: Callable[[Message], None],
        has_ended: Callable[[ProcessId], bool],
        observe: Callable[[str, str, bytes, dict[str, Any]], None],
        overflow: str,
        warn: Callable[[str], None],
    ) -> None:
        self.server = OverflowServer(server, overflow)
        self.quotas = StoreQuotas()
        self._postponed: set[ObjectId] = set()
        """Objects that wait for room in the quota of their makers."""
        self._reactor = reactor
        self._send = send
        self._broadcast = broadcast
        self._has_ended = has_ended
        self._observe = observe
        self._spill_work = SpillWork(self.server, spill, reactor, self._disk_moved)
        self._files = OverflowFiles(overflow, reactor, self._file_came)
        self._warn: Callable[[str], None] | None = warn
        self._moved_at = self._waiting_since = 0.0
        self._watching = False
        self._local: dict[ProcessId, LocalAnswer] = {}
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
        self._local[client] = answer

    def create(self, event: contract.Create) -> None:
        """Let an object be created, unless its owner has ended."""
        if self._has_ended(event.owner):
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
        if instructions and not isinstance(event, contract.Pin):  # one that is answered at once moves nothing
            self._moved_at = self._reactor.clock()
        if self.server.waits and not self._watching and self.server.usage().waiting:
            self._watch()

    def finish_disk_work(self) -> None:
        """Feed back what threads have done. Called from the loop."""
        self._spill_work.finish()
        self._files.finish()

    def _disk_moved(self, event: Done | contract.RestoreLate) -> None:
        self._moved_at = self._reactor.clock()
        self.handle(event)
        if isinstance(event, contract.SpillDone):
            self._observe(observers.OBJECT, observers.SPILLED, event.object, {"uri": event.uri})
        elif isinstance(event, contract.RestoreDone):
            self._observe(observers.OBJECT, observers.RESTORED, event.object, {})

    def _file_came(self, event: FileMade | FileFailed) -> None:
        self._moved_at = self._reactor.clock()
        self.handle(event)
        if self._warn is not None and isinstance(event, FileMade):
            warn, self._warn = self._warn, None
            warn(self._overflow_text())

    def _overflow_text(self) -> str:
        usage = self.server.usage()
        store = f"the object store of {readable(usage.capacity)}"
        why = f"it is larger than {store}"
        if usage.overflow <= usage.capacity:
            taken = f"{readable(usage.used)} there are taken, {readable(usage.pinned)} of them by what is in use"
            why = f"{store} had no room for it: {taken}"
        return (
            f"an object of {readable(usage.overflow)} went into a file in {self._files.directory}, because {why}. "
            "Files may be slower than memory: drop references and views that are no longer needed, or raise "
            "object_store_memory. This is said once; `kernel memory` shows what lies in files"
        )

    def explain(self, object: ObjectId) -> str:
        """Say what a request for `object` waits for."""
        reasons = []
        usage = self.server.usage()
        if usage.waiting:
            reasons.append(
                f"{usage.used} of the store's {usage.capacity} bytes are taken, {usage.pinned} of them by what is in "
                f"use (`kernel memory` says by whom), objects that wait for room: {usage.waiting}"
            )
        reasons += filter(None, [self._spill_work.explain(object), self._files.explain()])
        return "; ".join(reasons) or "another process is writing it"

    def close(self) -> None:
        """Stop disk work and free everything."""
        self._files.close()
        self._spill_work.close()
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
                self._broadcast((op.STORE_RELEASE_IDLE,))
                self._reactor.call_later(NEWS_SECONDS, lambda: self._create_again(create))
            else:
                self._carry_out([contract.Failed(create.client, create.request, error)])
            return
        self.quotas.asked(create.client, create.request, create.object, create.size)
        if dropped:
            self.handle(contract.Delete(dropped))
        self.handle(create)

    def _create_again(self, create: contract.Create) -> None:
        given_up = create.object not in self._postponed or self._has_ended(create.client)
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
        answers: list[contract.Reply | contract.Failed] = []
        for step in instructions:
            if isinstance(step, contract.Reply | contract.Failed) and step.client in self._local:
                answers.append(step)
            elif isinstance(step, contract.Reply):
                self.quotas.answered(step.client, step.request, failed=False)
                self._send(step.client, (op.REPLY, step.request, pickle.dumps(step.value)))
            elif isinstance(step, contract.Failed):
                self.quotas.answered(step.client, step.request, failed=True)
                self._send(step.client, (op.REPLY_ERROR, step.request, pickle.dumps(step.error)))
            elif isinstance(step, contract.WriteSpill | contract.ReadSpill):
                self._spill_work.begin(step)
            elif isinstance(step, contract.DeleteSpill):
                self._spill_work.delete(step.uri)
            elif isinstance(step, MakeFile):
                self._files.make(step)
            elif isinstance(step, RemoveFile):
                self._files.remove(step.path)
            else:
                self._broadcast((op.STORE_RELEASE_IDLE,))
        for step in answers:  # last, because they may lead to new events
            if isinstance(step, contract.Reply):
                self._local[step.client](step.request, step.value, None)
            else:
                self._local[step.client](step.request, None, step.error)

    def _watch(self) -> None:
        if not self._watching:
            self._watching = True
            self._moved_at = self._waiting_since = self._reactor.clock()
            self._reactor.call_later(self._patience(), self._look)

    def _patience(self) -> float:
        """Return for how many seconds nothing may move: longer where giving up means to fail."""
        return PATIENCE_SECONDS if self.server.no_way_out else OVERFLOW_SECONDS

    def _look(self) -> None:
        self._watching = False
        if not self.server.usage().waiting:
            return
        now = self._reactor.clock()
        patience = self._moved_at + self._patience() - now
        too_long = now - self._waiting_since >= PATIENCE_SECONDS  # others may go on putting small objects for ever
        if patience <= 0 or (too_long and not self.server.no_way_out):
            self._give_up()
            patience = self._patience()
        self._watching = True
        self._reactor.call_later(patience, self._look)

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

"""The part of the agent that pulls objects to this node, and sends objects of this node to others.

    transfer = TransferService(reactor, store, client, address, connect)
    transfer.serve(accepted_socket)                  # for every connection that asks for the transfer service
    ticket = transfer.pull(object, size, owner, ["tcp://10.0.0.7:6380/transfer"], then)

All methods are called from the loop, and call back from it. A pulled object is created, filled and sealed in the node's
store like an object of a worker: it belongs to its owner, whose end deletes it, and can be pinned, spilled and deleted
like any other.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from kernel_network_tcp.transfer.connections import Connections
from kernel_network_tcp.transfer.limits import TransferLimits
from kernel_network_tcp.transfer.pull import ENDING, QUEUED, Means, Pull
from kernel_network_tcp.transfer.pull_queue import PullQueue
from kernel_network_tcp.transfer.uploads import Uploads
from kernel_processes.node.store_link import StoreLink
from kernel_processes.transport.background import Background
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import ObjectStoreError, OwnerDiedError
from kernel_spec.ids import ObjectId, ProcessId
from kernel_spec.networks import NodeStore

TICK_SECONDS = 0.05

Then = Callable[[Exception | None], None]
"""Called once: with None when the object is in the node's store, otherwise with the error."""


class Ticket:
    """Represents one waiter for an object. `cancel` ends the wait; the last one ends the pull and frees its room."""

    __slots__ = ("_service", "object", "then")

    def __init__(self, service: TransferService, object: ObjectId, then: Then) -> None:
        self._service = service
        self.object = object
        self.then: Then | None = then

    @property
    def waits(self) -> bool:
        """Whether it still waits: it was neither called back nor cancelled."""
        return self.then is not None

    def cancel(self) -> None:
        """Do not call back any more. Calling it again, or after the end, does nothing."""
        if self.then is not None:
            self.then = None
            self._service.forget(self)


class TransferService:
    """Pulls and sends the objects of one node.

    `client` is the id by which it uses the store, of no process; `address` is how other nodes reach `serve` here,
    as they would give it to their `connect`; `connect(address)` makes a blocking socket to another node's service that
    has proved the token. It is called in threads, and must give up by itself after some seconds.
    """

    def __init__(
        self,
        reactor: Reactor,
        store: NodeStore,
        client: ProcessId,
        address: str,
        connect: Callable[[str], socket.socket],
        limits: TransferLimits | None = None,
    ) -> None:
        limits = limits or TransferLimits()
        self.limits = limits
        self.queue = PullQueue(limits)
        self.pulls: dict[ObjectId, Pull] = {}
        self._reactor = reactor
        self._tickets: dict[ObjectId, list[Ticket]] = {}
        self._next: dict[ObjectId, Pull] = {}
        link = StoreLink(store, client)
        self.uploads = Uploads(reactor, link, limits, self.pulls.__contains__, self._sent)
        self._connections = Connections(connect, limits.stall_seconds, reactor.clock)
        self._threads = Background(reactor, "download", limits.threads)
        self._means = Means(address, limits, reactor.clock, link, self.uploads, self._connections, self._threads)
        self._ticking = False
        self._sweeping = False
        self._closed = False

    def pull(
        self,
        object: ObjectId,
        size: int,
        owner: ProcessId,
        sources: Sequence[str],
        then: Then,
        urgent: bool = True,
        keep: bool = False,
    ) -> Ticket:
        """Have an object of `size` bytes, which `owner` owns, in this node's store; `then` may be called at once.

        `sources` are addresses of nodes that have it, or are receiving it; the first are asked first. With `urgent`
        a process waits for it now, so it comes before others. The copy may be dropped when space is short, unless it
        is one to `keep`. Pulls of one object are one pull, with the sources of all. `then` gets `ObjectLostError` when
        no source can give it (which names them and what they said), `OwnerDiedError` when the owner ends, and what the
        store says when that has no room.

        Once it is called with None the object is sealed, but not pinned: who wants to read pins it in the same call.
        """
        ticket = Ticket(self, object, then)
        pull = self._next.get(object) or self.pulls.get(object)
        if pull is None or (pull.state == ENDING and object not in self._tickets):
            pull = self._new_pull(object, size, owner)
        self._tickets.setdefault(object, []).append(ticket)
        for address in sources:
            pull.add_source(address)
        pull.keep |= keep
        if urgent:
            pull.urgent = True
            self.queue.hurry(object)
        self._advance()
        return ticket

    def add_sources(self, object: ObjectId, sources: Sequence[str]) -> None:
        """Add nodes from which an object that is being pulled can be fetched."""
        pull = self.pulls.get(object)
        for address in sources if pull is not None else ():
            pull.add_source(address)  # type: ignore[union-attr]

    def serve(self, sock: socket.socket) -> None:
        """Answer what comes over an accepted socket whose peer has proved the token; it is the service's now."""
        self.uploads.serve(sock)

    def owner_left(self, owner: ProcessId) -> None:
        """Stop the pulls of objects whose owner, a process of any node, has ended."""
        for pull in [pull for pull in self.pulls.values() if pull.owner == owner]:
            pull.stop(
                OwnerDiedError(
                    f"object {pull.object.hex()} is not fetched to this node: process {owner.hex()}, which owned it, "
                    "has ended"
                )
            )

    def explain(self, object: ObjectId) -> str:
        """Say what a pull waits for; "" when there is no such pull."""
        pull = self.pulls.get(object)
        if pull is None:
            return ""
        ahead = f", behind {len(self.queue.running)} others" if object not in self.queue.running else ""
        return f"object {object.hex()} of {pull.size} bytes {pull.describe()}{ahead}"

    def close(self) -> None:
        """Break off all transfers without calling back, and wait for the threads. Call it before closing the store."""
        self._closed = True
        self._tickets.clear()
        for pull in list(self.pulls.values()):
            pull.break_off()
        self._threads.close()
        self.uploads.close()
        self._connections.close()

    def validate(self) -> None:
        """Raise AssertionError when an invariant is broken."""
        self.queue.validate()
        self.uploads.table.validate()
        for pull in self.pulls.values():
            pull.validate()

    def forget(self, ticket: Ticket) -> None:
        """Remove a waiter (`Ticket.cancel`)."""
        tickets = self._tickets.get(ticket.object)
        if tickets is None or ticket not in tickets:
            return
        tickets.remove(ticket)
        if not tickets:
            del self._tickets[ticket.object]
            if self._next.pop(ticket.object, None) is None:
                self.pulls[ticket.object].stop(ObjectStoreError("its last waiter has cancelled"))

    # -- what happens ----------------------------------------------------------------------------------------------

    def _new_pull(self, object: ObjectId, size: int, owner: ProcessId) -> Pull:
        """Put a pull into the queue, or behind one that is not wanted any more but still has the object's name."""
        pull = Pull(object, size, owner, self._means, self._ended)
        if object in self.pulls:
            self._next[object] = pull
        else:
            self._queue(pull)
        return pull

    def _queue(self, pull: Pull) -> None:
        self.pulls[pull.object] = pull
        self.queue.add(pull.object, pull.size, pull.urgent, self._reactor.clock())

    def _advance(self) -> None:
        for object in self.queue.next(self._reactor.clock()):
            pull = self.pulls.get(object)
            if pull is not None and pull.state == QUEUED:  # A pull that was started before it may have ended it.
                pull.begin()
        self._keep_time()

    def _ended(self, pull: Pull, error: Exception | None) -> None:
        del self.pulls[pull.object]
        self.queue.remove(pull.object)
        following = self._next.pop(pull.object, None)
        if following is not None:
            self._queue(following)
            self._advance()
            return
        for ticket in self._tickets.pop(pull.object, []):
            then, ticket.then = ticket.then, None
            if then is not None:
                then(error)
        self._advance()

    def _sent(self, object: ObjectId) -> None:
        pull = self.pulls.get(object)
        if pull is not None:
            pull.look_quiet()

    # -- time ------------------------------------------------------------------------------------------------------

    def _keep_time(self) -> None:
        if not self._ticking and self.pulls:
            self._ticking = True
            self._reactor.call_later(TICK_SECONDS, self._tick)
        if not self._sweeping and self.pulls:
            self._sweeping = True
            self._reactor.call_later(self.limits.idle_seconds, self._sweep)

    def _tick(self) -> None:
        self._ticking = False
        if self._closed:
            return
        for pull in list(self.pulls.values()):
            pull.tick()
        self._advance()

    def _sweep(self) -> None:
        self._sweeping = False
        if not self._closed and self._connections.close_idle(self.limits.idle_seconds):
            self._sweeping = True
            self._reactor.call_later(self.limits.idle_seconds, self._sweep)

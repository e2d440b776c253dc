"""Fetch objects from other nodes when processes here need them, and delete unneeded copies on other nodes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from functools import partial

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message
from kernel_processes.node.store_link import StoreLink
from kernel_processes.node.store_service import StoreService
from kernel_processes.transport.addresses import is_relayed, is_tcp, place_of
from kernel_processes.transport.connection import Connection
from kernel_spec import store as contract
from kernel_spec.errors import ObjectLostError, OwnerDiedError
from kernel_spec.ids import ObjectId, ProcessId
from kernel_spec.networks import NodeLinks, PullTicket

_LOOKING = ProcessId(b"exchange")
"""The id by which the agent itself uses the store."""


class ObjectExchange:
    """Moves objects between the processes of this node, its store, and the stores of other nodes.

    `place` is where this node is reached, `links` lead to the others. `send(process, message)` reaches a process here,
    `here(process)` says whether it is one.
    """

    def __init__(
        self,
        place: str,
        store: StoreService,
        links: NodeLinks,
        send: Callable[[ProcessId, Message], None],
        here: Callable[[ProcessId], bool],
    ) -> None:
        self._place = place
        self._store = store
        self._link = StoreLink(store, _LOOKING)
        self._links = links
        self._send = send
        self._here = here
        self._readers: dict[ProcessId, dict[int, PullTicket]] = {}
        """Process to its requests that wait for objects."""
        self.handlers: dict[int, Callable[[Connection, Message], None]] = {
            op.STORE_FETCH: self._on_fetch,
            op.STORE_DELETE_AT: lambda connection, message: links.delete(message[1], message[2]),
            op.STORE_KEEP_AT: lambda connection, message: self._keep(message[1], message[2]),
        }

    def close(self) -> None:
        """Abort transfers. Called before the store is closed."""
        self._links.close()

    def node_left(self, place: str) -> None:
        """Stop sending to a node that is gone."""
        self._links.node_left(place)

    def flush(self) -> None:
        """Send the queued messages to other nodes."""
        self._links.flush()

    def process_left(self, process: ProcessId) -> None:
        """Stop fetching for a process that has ended, on any node, and fetching its objects."""
        for ticket in self._readers.pop(process, {}).values():
            ticket.cancel()
        self._links.owner_left(process)

    def explain(self, object: ObjectId) -> str:
        """Return a text that says what a process here that reads an object waits for."""
        return self._links.explain(object) or self._store.explain(object)

    def copy(
        self,
        objects: Sequence[tuple[ObjectId, int, ProcessId, str]],
        place: str,
        then: Callable[[int], None],
    ) -> None:
        """Copy objects (id, size, owner, its address) from the leaving node at `place`, and tell their owners.

        `then(number of copies)` is called at the end. An object that can't be copied stays where it is.
        """
        outcomes: list[bool] = []

        def done(object: ObjectId, owner: ProcessId, address: str, error: Exception | None) -> None:
            if error is None:
                self._tell_owner(owner, address, (op.COPIED, object, self._place))
            outcomes.append(error is None)
            if len(outcomes) == len(objects):
                then(sum(outcomes))

        def looked(object: ObjectId, size: int, owner: ProcessId, address: str, error: Exception | None) -> None:
            if isinstance(error, ObjectLostError):
                tell = partial(done, object, owner, address)
                self._links.pull(object, size, owner, [place], tell, urgent=False, keep=True)
                return
            if error is None:
                self._link.keep(object)
                self._link.unpin(object)
            done(object, owner, address, error)

        for row in objects:
            self._link.pin(row[0], lambda found, error, row=row: looked(*row, error))  # type: ignore[misc]
        if not objects:
            then(0)

    def _on_fetch(self, connection: Connection, message: Message) -> None:
        """Pin an object for a process, after it was fetched if it is not in this node's store."""
        _, request, object, size, places, owner, address = message
        client = connection.info.id
        elsewhere = sources(places, self._place)
        waiting = self._readers.setdefault(client, {})

        def fetch(keep: bool = False) -> None:
            ticket = self._links.pull(object, size, owner, elsewhere.pop(0), fetched, keep=keep)
            if ticket.waits:
                waiting[request] = ticket

        def looked(found: object, error: Exception | None) -> None:
            if error is None:
                self._pin(client, request, object)
                self._link.unpin(object)
            elif not self._here(client):
                return
            elif isinstance(error, ObjectLostError) and elsewhere:
                fetch(keep=error.__cause__ is not None)  # It replaces the spilled copy, the one that counted.
            else:
                self._fail(client, request, error)

        def fetched(error: Exception | None) -> None:
            waiting.pop(request, None)
            if isinstance(error, ObjectLostError) and not isinstance(error, OwnerDiedError) and elsewhere:
                fetch()
                return
            if error is not None:
                self._fail(client, request, error)
                return
            self._pin(client, request, object)
            self._tell_owner(owner, address, (op.COPIED, object, self._place))

        self._link.pin(object, looked)

    def _keep(self, place: str, object: ObjectId) -> None:
        if place == self._place:
            self._store.keep(object)
        else:
            self._links.keep(place, object)

    def _pin(self, client: ProcessId, request: int, object: ObjectId) -> None:
        if self._here(client):
            self._store.handle(contract.Pin(client, request, object))

    def _fail(self, client: ProcessId, request: int, error: Exception) -> None:
        self._send(client, (op.REPLY_ERROR, request, pickle.dumps(error)))

    def _tell_owner(self, owner: ProcessId, address: str, message: Message) -> None:
        if self._here(owner):
            self._send(owner, message)
        elif is_tcp(address):
            self._links.forward(place_of(address), owner, message)


def sources(places: Sequence[str], own: str) -> list[list[str]]:
    """Return the groups of places from which to fetch an object: direct places first, then relayed ones."""
    near = [place for place in places if place != own and not is_relayed(place)]
    far = [place for place in places if place != own and is_relayed(place)]
    return [some for some in (near, far) if some]

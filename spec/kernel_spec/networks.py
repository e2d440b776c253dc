"""The network contract: what makes one machine into many.

The agent of a node that other machines reach opens a network by name, and so does the agent of a program that joins a
cluster from outside. A session of one machine opens none, imports none, and needs none to be installed. Networks are
found by entry points in the group `kernel.networks`, whose name is the network's and whose value is a `Network`.
That is no hook: an agent imports the network that was chosen, and looks for no other. The agent passes its name to the
processes of its node, each of which opens its part of it: an agent has a `NodeNetwork`; a process with user code, a
head and a command each have a `ProcessNetwork`.

A node's methods are called from the agent's one loop, and call back from it: they must return at once, and keep what
takes long to threads of their own. Opening a node alone may wait, for seconds. The order of calls is: open, `link`,
`open_relay` on the node beside the head, `serve` where the head is in the agent's process, `begin`, then anything, and
in the end `NodeLinks.close`, `NetworkRelay.close`, `NodeNetwork.close`. Nothing has to survive a crash of the agent:
what a network started must notice the agent's end by itself, and end too.

Messages of a peer that has not proved the session's token must be neither unpickled nor passed on; for such a peer
`on_refused(reason)` is called.

A *place* is where a node is reached, as text: "HOST:PORT", perhaps followed by a route. It is announced to other nodes,
and processes with user code connect to it directly, as "tcp://PLACE/TARGET": a target is the id of a process in
hexadecimal, or a word such as "head". Both ends of a connection communicate without a hop in between: a node passes the
socket that it has accepted for a process to that process, over the UNIX socket at `sockets/TARGET.in` in the session's
directory (`kernel_processes.transport.socket_receiver`). The loop, connections and messages are those of the engine of
many processes. They are not a stable contract: a network is released together with the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from socket import socket
from typing import Any, Protocol

from kernel_spec.dataclass import dataclass
from kernel_spec.ids import NodeId, ObjectId, ProcessId
from kernel_spec.store import Location, StoreEvent
from kernel_spec.tls_files import TlsFiles

TCP = "tcp"
"""The default network."""
OFF = "off"
"""Turns networks off: nodes of this machine do not work with other machines, and programs join no clusters."""
VARIABLE = "KERNEL_NETWORK"
"""Environment variable that chooses another network."""

Loop = Any  # kernel_processes.transport.reactor.Reactor: the contract imports no engine
Connection = Any  # kernel_processes.transport.connection.Connection
Message = tuple[Any, ...]
Pulled = Callable[["Exception | None"], None]
"""Called once: with None when the object is in the node's store, otherwise with the error."""


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """The settings that a network is opened with.

    `listen` ("HOST:PORT") is where it accepts connections of other machines; with `any_port` a port that is taken is
    replaced by any free one. `advertised` is the place that others are given, if it differs. For the agent of a program
    outside of the cluster, `relay` is the head's place: others can't connect to such a node, which does not listen, and
    it reaches others through the head's place. With `tls` connections between machines use TLS. `directory` is the
    session's; a network may use its `sockets` and `logs`.
    """

    node: NodeId
    directory: str
    token: bytes
    listen: str = ""
    any_port: bool = False
    advertised: str = ""
    relay: str = ""
    tls: TlsFiles | None = None


class StoreMemory(Protocol):
    """The memory of a node's store: `StoreServer` in `kernel_spec.store` has the rest."""

    def view(self, location: Location, size: int) -> memoryview:
        """Return the memory of an object that is pinned or being created."""


class NodeStore(Protocol):
    """The node's store for a network, which is a client of it; answers arrive as calls."""

    @property
    def server(self) -> StoreMemory:
        """The memory of its objects."""

    def serve_locally(self, client: ProcessId, answer: Callable[[int, Any, Exception | None], None]) -> None:
        """Register the network as a client: `answer(request, answer, error)` is called for each of its requests."""

    def create(self, event: Any) -> None:
        """Allocate memory for an object (`kernel_spec.store.Create`), unless its owner has ended."""

    def seal(self, event: Any) -> None:
        """Mark an object as complete (`kernel_spec.store.Seal`)."""

    def handle(self, event: StoreEvent) -> None:
        """Handle any other event of `kernel_spec.store`."""

    def keep(self, object: ObjectId) -> None:
        """Keep this node's copy of an object even when space is short."""

    def delete(self, objects: Sequence[ObjectId]) -> None:
        """Delete objects that are no longer needed."""


class PullTicket(Protocol):
    """A pending pull of an object of another node."""

    @property
    def waits(self) -> bool:
        """Whether the pull has neither ended nor been cancelled."""

    def cancel(self) -> None:
        """Cancel the callback. Calling this again, or after the end, does nothing."""


class NodeLinks(Protocol):
    """Objects, messages and orders between this node and the others, without the head."""

    def pull(
        self,
        object: ObjectId,
        size: int,
        owner: ProcessId,
        places: Sequence[str],
        then: Pulled,
        urgent: bool = True,
        keep: bool = False,
    ) -> PullTicket:
        """Copy an object of `size` bytes, which `owner` owns, into this node's store; `then` may be called at once.

        `places` have it, or are receiving it. `urgent` says that a process waits for it now. The copy may be dropped
        when space is short, unless `keep` is set. `then` gets ObjectLostError when no place can provide the object,
        OwnerDiedError when the owner ends, and the store's error when that is full. When it is called with None, the
        object is sealed, but not pinned.
        """

    def forward(self, place: str, process: ProcessId, message: Message) -> None:
        """Let the node at `place` deliver a message to one of its processes.

        Messages are delivered in order, and at least once, unless the node leaves.
        """

    def delete(self, place: str, objects: Sequence[ObjectId]) -> None:
        """Let the node at `place` delete objects."""

    def keep(self, place: str, object: ObjectId) -> None:
        """Let the node at `place` keep its copy of an object even when space is short."""

    def owner_left(self, owner: ProcessId) -> None:
        """Stop pulling the objects of a process that has ended, on this node or another."""

    def node_left(self, place: str) -> None:
        """Stop sending to a node that has left."""

    def explain(self, object: ObjectId) -> str:
        """Return a text that says what the pull of an object waits for; "" when there is no such pull."""

    def flush(self) -> None:
        """Send all queued messages. Called at the end of each turn of the loop."""

    def close(self) -> None:
        """Abort transfers without callbacks, and stop using the store, which is closed next."""


class NetworkRelay(Protocol):
    """Relays between programs outside of the cluster and its nodes, on the node beside the head."""

    def member(self, place: str, there: bool) -> None:
        """Allow relaying to the place of a node or of a program's agent, or (`there` False) stop it."""

    def close(self) -> None:
        """Close all relayed connections."""


class NodeNetwork(Protocol):
    """The network of one node: connections to other nodes, and from them."""

    @property
    def place(self) -> str:
        """The place where others reach this node; it does not change."""

    def link(self, store: NodeStore, deliver: Callable[[ProcessId, Message], None]) -> NodeLinks:
        """Start serving objects of `store` to others, and call `deliver(process, message)` for incoming messages."""

    def open_relay(self) -> NetworkRelay:
        """Start relaying between programs outside of the cluster and nodes."""

    def serve(
        self,
        target: str,
        on_messages: Callable[[Connection, list[Message]], None],
        on_close: Callable[[Connection, str], None],
    ) -> None:
        """Serve connections to `target`, a word such as "head", in this loop.

        `on_messages` gets the messages of peers that have proved the token, `on_close` the end of their connections. A
        target that is not served here, and is the head or the id of a process of this node, is served by that process.
        """

    def pass_strangers_to(self, path: str) -> None:
        """Pass connections that speak another protocol to the UNIX socket at `path`: the control plane's."""

    def begin(self) -> None:
        """Start accepting connections. Called when everything is ready."""

    def close(self) -> None:
        """Stop accepting connections, and close everything that was opened."""


class IncomingSockets(Protocol):
    """Makes connections of one process from sockets that the node has accepted for it."""

    def adopt(self, sock: socket) -> None:
        """Take a socket from which the node has read the target, and nothing else."""

    def close(self) -> None:
        """Close connections that have sent no message yet."""

    def abandon(self) -> None:
        """Forget the sockets in a forked child, where the loop and the peers are the parent's."""


class ProcessNetwork(Protocol):
    """The part of a network in one process: connections to and from processes of other nodes.

    Called by any thread, one at a time. Its connections are `kernel_processes.transport.connection.Connection` or
    subclasses. A connection that outlives its socket follows `kernel_processes.transport.resumption`.
    """

    def connect(
        self,
        address: str,
        on_messages: Callable[[Connection, list[Message]], None],
        on_close: Callable[[Connection, str], None],
    ) -> Connection:
        """Return a connection to "tcp://PLACE/TARGET" at once; the loop opens its socket and proves the token.

        A failure is reported like any end, by `on_close(connection, reason)`; unsent messages are still in the outbox
        then. If the place answers and has no such target, the reason contains `NOBODY` of
        `kernel_processes.transport.addresses`. Raises OptionError for an invalid address.
        """

    def receive(
        self,
        on_messages: Callable[[Connection, list[Message]], None],
        on_close: Callable[[Connection, str], None],
        on_refused: Callable[[str], None],
    ) -> IncomingSockets:
        """Return the object that makes connections from the sockets for this process."""


class Network(Protocol):
    """The object that an entry point of a network names. Its import should load only the code for processes."""

    def check_tls(self, files: TlsFiles) -> None:
        """Raise OptionError, which names the file, when the files can't be used."""

    def open_node(self, settings: NetworkSettings, loop: Loop, on_refused: Callable[[str], None]) -> NodeNetwork:
        """Open the node's place. `on_refused(reason)` is called for each peer that is refused.

        Raises OptionError when the place can't be used, SessionEndedError when the relay can't be reached.
        """

    def open_process(self, token: bytes, tls: TlsFiles | None, loop: Loop) -> ProcessNetwork:
        """Return one process's part of the network. Raises OptionError when the files of TLS can't be used."""

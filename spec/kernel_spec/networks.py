"""The network contract: what makes one machine into many.

The agent of a node that other machines reach opens a network by name, and so does the agent of a program that joins a
cluster from outside. A session of one machine opens none, imports none, and needs none to be installed. Networks are
found by entry points in the group `kernel.networks`, whose name is the network's and whose value is a `Network`.
That is no hook: an agent imports the network that was chosen, and looks for no other. It tells the processes of its
node which one that is, and each of them opens its part of it: `NodeNetwork` is an agent's, `ProcessNetwork` is that of
a process with user code, and of a head or a command.

A node's methods are called from the agent's one loop, and call back from it: they must return at once, and keep what
takes long to threads of their own. Opening a node alone may wait, for seconds. The order of calls is: open, `link`,
`open_relay` on the node beside the head, `serve` where the head is in the agent's process, `begin`, then anything, and
in the end `NodeLinks.close`, `NetworkRelay.close`, `NodeNetwork.close`. Nothing has to survive a crash of the agent:
what a network started must notice the agent's end by itself, and end too.

Nobody who does not know the session's token may be heard: what such a peer sends is neither unpickled nor passed on,
and `on_refused(reason)` is called.

A *place* is where a node is reached, as text: "HOST:PORT", perhaps with a route behind it. It is what other nodes are
told, and what processes with user code dial by themselves, as "tcp://PLACE/TARGET": a target is the id of a process in
hexadecimal, or a word such as "head". Who is connected to speaks with its peer itself, without a hop in between: a node
hands the socket that it has accepted for a process to that process, over the UNIX socket at `sockets/TARGET.in` in the
session's directory (`kernel_processes.transport.socket_receiver`). The loop, connections and messages are those of the
engine of many processes. They are no contract that lasts: a network is released together with the kernel.
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
"""The network that is chosen where nothing else is."""
OFF = "off"
"""Chosen instead of a network: no node here works with other machines, and no program joins a cluster."""
VARIABLE = "KERNEL_NETWORK"
"""The variable of the environment that chooses another."""

Loop = Any  # kernel_processes.transport.reactor.Reactor: the contract imports no engine
Connection = Any  # kernel_processes.transport.connection.Connection
Message = tuple[Any, ...]
Pulled = Callable[["Exception | None"], None]
"""Called once: with None when the object is in the node's store, else with the reason why it is not."""


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """What a network is opened with: the node that it serves, and how others reach that.

    `listen` ("HOST:PORT") is where other machines come in; with `any_port` a port that somebody else has is replaced by
    any other. `advertised` is what others are told, if that differs. `relay` is the head's place where this is the
    agent of a program outside: such a node can't be dialled, listens nowhere, and reaches all others through there.
    With `tls` everything between machines is in TLS. `directory` is the session's, whose `sockets` and `logs` a network
    may use.
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
    """The store of the node, as a network uses it: as a client of its own, whose answers are calls."""

    @property
    def server(self) -> StoreMemory:
        """The memory of its objects."""

    def serve_locally(self, client: ProcessId, answer: Callable[[int, Any, Exception | None], None]) -> None:
        """Take the network as a client: `answer(request, answer, error)` is called for each of its requests."""

    def create(self, event: Any) -> None:
        """Find room for an object (`kernel_spec.store.Create`), unless its owner has ended."""

    def seal(self, event: Any) -> None:
        """An object is complete (`kernel_spec.store.Seal`)."""

    def handle(self, event: StoreEvent) -> None:
        """Do what any other event of `kernel_spec.store` asks for."""

    def keep(self, object: ObjectId) -> None:
        """The copy of an object that is here is not to be dropped when space is short."""

    def delete(self, objects: Sequence[ObjectId]) -> None:
        """Nobody needs these objects any more."""


class PullTicket(Protocol):
    """One wait for an object of another node."""

    @property
    def waits(self) -> bool:
        """Whether it was neither called back nor cancelled."""

    def cancel(self) -> None:
        """Do not call back any more. Calling it again, or after the end, does nothing."""


class NodeLinks(Protocol):
    """What a node and the others do for each other, without the head: objects, messages, orders."""

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
        """Have an object of `size` bytes, which `owner` owns, in this node's store; `then` may be called at once.

        `places` have it, or are receiving it. With `urgent` a process waits for it now. The copy may be dropped when
        space is short, unless it is one to `keep`. `then` gets ObjectLostError when no place can give it,
        OwnerDiedError when the owner ends, and what the store says when that has no room. Once it is called with None
        the object is sealed, but not pinned.
        """

    def forward(self, place: str, process: ProcessId, message: Message) -> None:
        """Have the node at `place` deliver a message to one of its processes.

        In order, and again where it may not have arrived, until the node is known to be gone: so perhaps twice.
        """

    def delete(self, place: str, objects: Sequence[ObjectId]) -> None:
        """Have the node at `place` delete objects."""

    def keep(self, place: str, object: ObjectId) -> None:
        """Have the node at `place` keep its copy of an object."""

    def owner_left(self, owner: ProcessId) -> None:
        """A process is gone, here or elsewhere: what it owned is not pulled any more."""

    def node_left(self, place: str) -> None:
        """A node is gone: nothing is sent to it any more."""

    def explain(self, object: ObjectId) -> str:
        """Say what a pull of the object waits for; "" when there is no such pull."""

    def flush(self) -> None:
        """Send what is queued. Called at the end of each turn of the loop."""

    def close(self) -> None:
        """Break off what is on its way, without calling back, and let the store go: it is closed next."""


class NetworkRelay(Protocol):
    """What stands between programs outside and nodes, on the node beside the head."""

    def member(self, place: str, there: bool) -> None:
        """A node, or a program's agent, that may be relayed to is there, or gone."""

    def close(self) -> None:
        """End all that is relayed."""


class NodeNetwork(Protocol):
    """One node's way to the others, and theirs to it."""

    @property
    def place(self) -> str:
        """Where the others reach this node; the same for its life."""

    def link(self, store: NodeStore, deliver: Callable[[ProcessId, Message], None]) -> NodeLinks:
        """Give others the objects of `store` from now on, and `deliver(process, message)` what comes for processes."""

    def open_relay(self) -> NetworkRelay:
        """Relay between programs outside and nodes from now on."""

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
        """All is ready: let others in."""

    def close(self) -> None:
        """Let nobody in any more, and end what was opened."""


class IncomingSockets(Protocol):
    """Connections of one process that others have opened: made of sockets that the node has accepted for it."""

    def adopt(self, sock: socket) -> None:
        """Take a socket from which the node has read whom it is for, and nothing else."""

    def close(self) -> None:
        """Close what has sent no message yet."""

    def abandon(self) -> None:
        """Let go of the sockets in a forked child, where the loop and the peers still are the parent's."""


class ProcessNetwork(Protocol):
    """One process's way to processes of other nodes, and theirs to it. Called by any thread, one at a time.

    Its connections are `kernel_processes.transport.connection.Connection`, or extend that. One that outlives its socket
    does what `kernel_processes.transport.resumption` says.
    """

    def connect(
        self,
        address: str,
        on_messages: Callable[[Connection, list[Message]], None],
        on_close: Callable[[Connection, str], None],
    ) -> Connection:
        """Return a connection to "tcp://PLACE/TARGET" at once; the loop makes it, and proves the token.

        A failure is reported as any end is, by `on_close(connection, reason)`, with what was sent still in the outbox.
        Where the place answers and has no such target, the reason contains `NOBODY` of
        `kernel_processes.transport.addresses`. Raises OptionError when the address can't be read.
        """

    def receive(
        self,
        on_messages: Callable[[Connection, list[Message]], None],
        on_close: Callable[[Connection, str], None],
        on_refused: Callable[[str], None],
    ) -> IncomingSockets:
        """Return what makes connections of the sockets that come for this process."""


class Network(Protocol):
    """What an entry point of a network names. Importing it loads what a process needs; the rest may wait for a node."""

    def check_tls(self, files: TlsFiles) -> None:
        """Raise OptionError, which names the file, when these can't be used."""

    def open_node(self, settings: NetworkSettings, loop: Loop, on_refused: Callable[[str], None]) -> NodeNetwork:
        """Have a place, and be ready to serve. `on_refused(reason)` is called for each peer that is turned away.

        Raises OptionError when the place can't be had, SessionEndedError when there is no relay.
        """

    def open_process(self, token: bytes, tls: TlsFiles | None, loop: Loop) -> ProcessNetwork:
        """Return one process's part of the network. Raises OptionError when the files of TLS can't be used."""

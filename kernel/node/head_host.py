"""An agent's head, in the agent's own process or elsewhere: how it is joined, served from here, and ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from kernel.head.config import HeadConfig
from kernel.head.head import Head
from kernel.head.membership import NodeMembership
from kernel.head.nodes import Node
from kernel.head.socket_activation import SocketActivation, socket_path
from kernel.node.head_child import HeadChild
from kernel.node.head_link import HeadLink, LocalHeadLink, RemoteHeadLink
from kernel.plugins import PluginManager
from kernel.protocol import head_messages
from kernel.protocol.agent_config import AgentConfig
from kernel.protocol.named_messages import packed
from kernel.transport.addresses import HEAD
from kernel.transport.connection import Message
from kernel.transport.reactor import Reactor
from kernel_spec.ids import NodeId

if TYPE_CHECKING:
    from kernel.transport.gateway import Gateway

END_SECONDS = 5.0
"""How long a head in another process may take to end the session."""

Turn = Callable[[float], None]
"""Serves for up to so many seconds."""


class AgentHead(Protocol):
    """What an agent needs of its head.

    `observed` says whether anybody listens there at first, `durable` whether another head can carry on after its
    death. `finishing` is what is done for it at the end of each turn of the agent's loop.
    """

    head_link: HeadLink
    observed: bool
    durable: bool
    finishing: list[Callable[[], object]]

    @property
    def pid(self) -> int:
        """The process id of a head that is a child of the agent's, else 0."""

    def join(self, description: Mapping[str, Any]) -> None:
        """Describe the node, from when on the head uses it."""

    def start(self) -> None:
        """The agent serves now."""

    def end(self, reason: str) -> None:
        """End the session, or what of it this agent may end."""

    def stop_services(self, turn: Turn) -> None:
        """Serve nobody but nodes any more."""

    def close(self, reason: str) -> None:
        """The agent has ended all else."""


class HeadHere:
    """The head of a session that ends with its agent, in the agent's process. Other nodes join through `gateway`.

    `on_word(message)` does what the head says, `stop(reason)` is called when the session is over.
    """

    durable = False
    pid = 0

    def __init__(
        self,
        config: AgentConfig,
        reactor: Reactor,
        manager: PluginManager,
        gateway: Gateway | None,
        on_word: Callable[[Message], None],
        stop: Callable[[str], None],
    ) -> None:
        told = HeadConfig(config.directory, config.directory, config.ephemeral, config.head_services, config.node)
        self._config = config
        self._manager = manager
        self._gateway = gateway
        self._head = Head(told, reactor, manager, stop)
        handle = self._head.dispatcher.handle
        self._head_link = LocalHeadLink(lambda message: handle(self._node, message), on_word)
        self.head_link: HeadLink = self._head_link
        self.observed = self._head.observation.active
        self.finishing: list[Callable[[], object]] = [self._head.observation.deliver]
        self._membership: NodeMembership | None = None
        self._control_plane: SocketActivation | None = None

    def join(self, description: Mapping[str, Any]) -> None:
        """Make the node, and let others in."""
        self._node = Node(NodeId(self._config.node), self._head_link.send_down, joined=time.time(), **description)
        self._head.add_node(self._node)
        if self._gateway is not None:
            self._open_door(self._gateway)

    def _open_door(self, gateway: Gateway) -> None:
        config = self._config
        self._control_plane = SocketActivation(self._head, config.directory, config.token, config.tls)
        gateway.splice_to = socket_path(config.directory)
        shared = {
            "plugins": self._manager.selected_names(),
            "plugin_options": self._manager.shared_options(),
            "observed": self.observed,
            "durable": self.durable,
        }
        self._membership = NodeMembership(self._head, shared, config.death_seconds)
        gateway.serve_connections(HEAD, self._membership.on_messages, self._membership.on_close)
        self.finishing.append(self._membership.flush)

    def start(self) -> None:
        """Begin to count time, and start the head's services."""
        self._head.start()

    def end(self, reason: str) -> None:
        """End the session."""
        self._head.end(reason)

    def stop_services(self, turn: Turn) -> None:
        """Close the control plane, and stop the head's services."""
        if self._control_plane is not None:
            self._control_plane.close(turn)
        self._head.services.stop()

    def close(self, reason: str) -> None:
        """Let the other nodes go, and end the head."""
        if self._membership is not None:
            self._membership.close()
        self._head.close()


class HeadElsewhere:
    """A head in another process, to which `head_link` leads: a `child` of this agent, or that of another node.

    `on_word(message)` does what the head says, `snapshot(unheard)` yields what a head that takes over must know.
    `lost(why)` is called when there is no head any more, `stop(reason)` when the session is over or the node leaves it.
    """

    def __init__(
        self,
        config: AgentConfig,
        reactor: Reactor,
        gateway: Gateway | None,
        head_link: RemoteHeadLink,
        child: HeadChild | None,
        on_word: Callable[[Message], None],
        snapshot: Callable[[Sequence[Message]], Iterable[Message]],
        lost: Callable[[str], None],
        stop: Callable[[str], None],
    ) -> None:
        self._reactor = reactor
        self._remote = head_link
        head_link.gives_up = child is None
        self._child = child
        self._on_word = on_word
        self._snapshot = snapshot
        self._lost = lost
        self._stop = stop
        self.head_link: HeadLink = head_link
        self.observed = bool(head_link.settings["observed"])
        self.durable = bool(head_link.settings["durable"])
        self.finishing: list[Callable[[], object]] = []
        if child is not None and gateway is not None:
            gateway.splice_to = socket_path(config.directory)

    @property
    def pid(self) -> int:
        """The process id of the head if it is a child of this agent, else 0."""
        return self._child.pid if self._child is not None else 0

    def join(self, description: Mapping[str, Any]) -> None:
        """Describe the node to the head, and look after it if it is a child."""
        if self._child is not None:
            self._child.supervise(self._reactor, self.durable, self._lost)
        self._remote.begin(description, self._on_word, self._snapshot, self._link_lost)

    def start(self) -> None:
        """Nothing: it serves already."""

    def end(self, reason: str) -> None:
        """End the session if its head is a child; else this node leaves it."""
        if self._child is None:
            self._stop(reason)
            return
        self.head_link.send(packed(head_messages.EndSession(reason=reason)))
        self._reactor.call_later(END_SECONDS, lambda: self._stop(reason))

    def stop_services(self, turn: Turn) -> None:
        """Nothing: the head does that."""

    def close(self, reason: str) -> None:
        """Leave, and see to it that a child is gone."""
        self._remote.leave(reason)
        if self._child is not None:
            self._child.close()

    def _link_lost(self, reason: str) -> None:
        if self._child is None or self._remote.was_refused:  # else who looks after it knows more
            self._lost(f"the head is gone: {reason}")

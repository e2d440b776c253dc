"""Connect an agent to the head, in the agent's own process or in another one: join it, serve it, end it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from kernel.plugins import PluginManager
from kernel_engine.messages.named_messages import Message, packed
from kernel_processes.node.head_child import HeadChild
from kernel_processes.node.head_link import HeadLink, RemoteHeadLink
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.agent_config import AgentConfig
from kernel_processes.protocol.head_sockets import control_plane_socket
from kernel_processes.transport.reactor import Reactor

if TYPE_CHECKING:
    from kernel_spec.networks import NodeNetwork

END_SECONDS = 5.0
"""Seconds that a head in another process may take to end the session before this node ends by itself."""

Turn = Callable[[float], None]
"""Runs the agent's loop once; its argument is the most seconds to wait for an event."""


class AgentHead(Protocol):
    """Connects an agent with its head, in the agent's process or in another one.

    `observed` says whether the head has observers when the node joins, `durable` whether another head can take over
    after its death. `finishing` are functions to call at the end of each turn of the agent's loop.
    """

    head_link: HeadLink
    observed: bool
    durable: bool
    finishing: list[Callable[[], object]]

    @property
    def pid(self) -> int:
        """The process id of the head if it is a child of this agent, otherwise 0."""

    def join(self, description: Mapping[str, Any]) -> None:
        """Describe the node to the head, which uses it from then on."""

    def start(self) -> None:
        """Start the head's timers and services. Called when the agent serves."""

    def end(self, reason: str) -> None:
        """End the session if the head belongs to this agent; otherwise only this node leaves it."""

    def stop_services(self, turn: Turn) -> None:
        """Stop the head's services and its control plane; nodes are still served."""

    def close(self, reason: str) -> None:
        """Leave or end the head. Called when the agent has ended everything else."""


class MakeLocalHead(Protocol):
    """Makes the head of a session in the agent's own process. Other nodes join through `network`.

    `on_message(message)` is called with each message from the head to this node, `stop(reason)` when the session ends.
    """

    def __call__(
        self,
        config: AgentConfig,
        reactor: Reactor,
        manager: PluginManager,
        network: NodeNetwork | None,
        on_message: Callable[[Message], None],
        stop: Callable[[str], None],
    ) -> AgentHead: ...


class RemoteHead:
    """Connects an agent with a head in another process by `head_link`: a `child` of this agent, or of another agent.

    `on_message(message)` is called with each message from the head. `snapshot(unacknowledged)` yields the messages for
    a head that takes over; its argument are the messages that the previous head may not have received.
    `lost(why)` is called when the head is gone for good, `stop(reason)` when the session ends or the node leaves it.
    """

    def __init__(
        self,
        config: AgentConfig,
        reactor: Reactor,
        network: NodeNetwork | None,
        head_link: RemoteHeadLink,
        child: HeadChild | None,
        on_message: Callable[[Message], None],
        snapshot: Callable[[Sequence[Message]], Iterable[Message]],
        lost: Callable[[str], None],
        stop: Callable[[str], None],
    ) -> None:
        self._reactor = reactor
        self._remote = head_link
        head_link.gives_up = child is None
        self._child = child
        self._on_message = on_message
        self._snapshot = snapshot
        self._lost = lost
        self._stop = stop
        self.head_link: HeadLink = head_link
        self.observed = bool(head_link.settings["observed"])
        self.durable = bool(head_link.settings["durable"])
        self.finishing: list[Callable[[], object]] = []
        if child is not None and network is not None:
            network.pass_strangers_to(control_plane_socket(config.directory))

    @property
    def pid(self) -> int:
        """The process id of the head if it is a child of this agent, otherwise 0."""
        return self._child.pid if self._child is not None else 0

    def join(self, description: Mapping[str, Any]) -> None:
        """Describe the node to the head, and supervise the head if it is a child."""
        if self._child is not None:
            self._child.supervise(self._reactor, self.durable, self._lost)
        self._remote.begin(description, self._on_message, self._snapshot, self._link_lost)

    def start(self) -> None:
        """Do nothing: the head serves already."""

    def end(self, reason: str) -> None:
        """End the session if the head is a child; otherwise leave it."""
        if self._child is None:
            self._stop(reason)
            return
        self.head_link.send(packed(head_messages.EndSession(reason=reason)))
        self._reactor.call_later(END_SECONDS, lambda: self._stop(reason))

    def stop_services(self, turn: Turn) -> None:
        """Do nothing: the head's own process does that."""

    def close(self, reason: str) -> None:
        """Leave the session, and wait until a child has ended."""
        self._remote.leave(reason)
        if self._child is not None:
            self._child.close()

    def _link_lost(self, reason: str) -> None:
        if self._child is None or self._remote.was_refused:  # A child's end is reported by its supervisor.
            self._lost(f"the head is gone: {reason}")

"""An agent's head, in the agent's own process or elsewhere: how it is joined, served from here, and ended."""

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
"""Seconds for a head in another process to end the session."""

Turn = Callable[[float], None]
"""Serves for up to so many seconds."""


class AgentHead(Protocol):
    """What an agent needs of its head.

    `observed` says whether the head has observers at first, `durable` whether another head can carry on after its
    death. `finishing` are functions that are called for it at the end of each turn of the agent's loop.
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
        """Serve only nodes from now on."""

    def close(self, reason: str) -> None:
        """The agent has ended all else."""


class MakeLocalHead(Protocol):
    """Makes the head of a session in the agent's own process, whose other nodes join by way of `network`.

    `on_word(message)` does what the head says, `stop(reason)` is called when the session is over.
    """

    def __call__(
        self,
        config: AgentConfig,
        reactor: Reactor,
        manager: PluginManager,
        network: NodeNetwork | None,
        on_word: Callable[[Message], None],
        stop: Callable[[str], None],
    ) -> AgentHead: ...


class RemoteHead:
    """A head in another process, to which `head_link` leads: a `child` of this agent, or that of another node.

    `on_word(message)` does what the head says, `snapshot(unheard)` yields what a head that takes over must know.
    `lost(why)` is called when there is no head any more, `stop(reason)` when the session is over or the node leaves it.
    """

    def __init__(
        self,
        config: AgentConfig,
        reactor: Reactor,
        network: NodeNetwork | None,
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
        if child is not None and network is not None:
            network.pass_strangers_to(control_plane_socket(config.directory))

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

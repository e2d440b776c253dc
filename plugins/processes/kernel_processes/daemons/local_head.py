"""The head of a session that ends with its agent: it runs in the agent's process and on the agent's loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kernel.plugins import PluginManager
from kernel_engine.messages.named_messages import Message
from kernel_processes.head.control_plane import control_plane_of
from kernel_processes.head.head import Head, HeadConfig
from kernel_processes.head.membership import NodeMembership
from kernel_processes.head.nodes import NodeRecord
from kernel_processes.head.socket_activation import SocketActivation
from kernel_processes.node.agent_head import Turn
from kernel_processes.node.head_link import HeadLink, LocalHeadLink
from kernel_processes.protocol.agent_config import AgentConfig
from kernel_processes.protocol.head_sockets import control_plane_socket
from kernel_processes.transport.addresses import HEAD
from kernel_processes.transport.reactor import Reactor
from kernel_spec.ids import NodeId

if TYPE_CHECKING:
    from kernel_spec.networks import NodeNetwork


class LocalHead:
    """Runs the head of a session in the process of its agent, and ends with it. Other nodes join through `network`.

    `on_message(message)` is called with each message from the head to this node, `stop(reason)` when the session ends.
    """

    durable = False
    pid = 0

    def __init__(
        self,
        config: AgentConfig,
        reactor: Reactor,
        manager: PluginManager,
        network: NodeNetwork | None,
        on_message: Callable[[Message], None],
        stop: Callable[[str], None],
    ) -> None:
        head_config = HeadConfig(
            config.directory, config.directory, config.ephemeral, config.head_services, config.node
        )
        self._config = config
        self._manager = manager
        self._network = network
        self._head = Head(head_config, reactor, manager, stop)
        handle = self._head.dispatcher.handle
        self._head_link = LocalHeadLink(lambda message: handle(self._node, message), on_message)
        self.head_link: HeadLink = self._head_link
        self.observed = self._head.observation.active
        self.finishing: list[Callable[[], object]] = [self._head.observation.deliver]
        self._membership: NodeMembership | None = None
        self._control_plane: SocketActivation | None = None

    def join(self, description: Mapping[str, Any]) -> None:
        """Register this node with the head, and accept other nodes if there is a network."""
        self._node = NodeRecord(NodeId(self._config.node), self._head_link.send_down, joined=time.time(), **description)
        self._head.add_node(self._node)
        if self._network is not None:
            self._accept_nodes(self._network)

    def _accept_nodes(self, network: NodeNetwork) -> None:
        config = self._config
        serve = control_plane_of(self._head, config.token, config.tls)
        self._control_plane = SocketActivation(serve, config.directory, self._head.reactor, self._head.log)
        network.pass_strangers_to(control_plane_socket(config.directory))
        shared = {
            "plugins": self._manager.selected_names(),
            "plugin_options": self._manager.shared_options(),
            "observed": self.observed,
            "durable": self.durable,
        }
        self._membership = self._head.membership(shared, config.death_seconds)
        network.serve(HEAD, self._membership.on_messages, self._membership.on_close)
        self.finishing.append(self._membership.flush)

    def start(self) -> None:
        """Start the head's timers and services."""
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
        """Close the links to the other nodes, and end the head."""
        if self._membership is not None:
            self._membership.close()
        self._head.close()

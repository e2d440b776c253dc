"""The network of a node: a gateway, links to other agents and their stores, a relay on the node beside the head."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from kernel_network_tcp.agent_links import AgentLinks
from kernel_network_tcp.gateway import Gateway
from kernel_network_tcp.node_links import TcpNodeLinks
from kernel_network_tcp.relay.link import RelayLink
from kernel_network_tcp.relay.service import RelayService
from kernel_network_tcp.transport.credentials import Credentials
from kernel_processes.transport.addresses import AGENT, TRANSFER, format_host_and_port, parse_host_and_port
from kernel_processes.transport.connection import Connection
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import OptionError
from kernel_spec.ids import ProcessId
from kernel_spec.networks import Message, NetworkSettings, NodeStore


class TcpNodeNetwork:
    """Runs one node's port, and its links to other nodes. Implements `kernel_spec.networks.NodeNetwork`."""

    def __init__(self, settings: NetworkSettings, reactor: Reactor, on_refused: Callable[[str], None]) -> None:
        self._settings = settings
        self._reactor = reactor
        self._tls = Credentials(settings.tls) if settings.tls is not None else None
        self._relay_link: RelayLink | None = None
        if settings.relay:
            self._relay_link = RelayLink(settings.relay, settings.token, reactor, settings.node, settings.tls)
            self.place = self._relay_link.join()
            self.gateway = self._listen("", 0, on_refused)
        else:
            self.gateway = self._open_gateway(on_refused)
            self.place = self._advertised()

    def link(self, store: NodeStore, deliver: Callable[[ProcessId, Message], None]) -> TcpNodeLinks:
        """Give others the objects of `store` from now on, and deliver what comes for processes of this node."""
        token, relay = self._settings.token, self._settings.relay
        agent_links = AgentLinks(token, self._tls, self._reactor, deliver, store.delete, store.keep, relay)
        self.gateway.serve_connections(AGENT, agent_links.on_messages, agent_links.on_close)
        links = TcpNodeLinks(self.place, token, self._tls, self._reactor, store, agent_links, relay)
        self.gateway.serve_sockets(TRANSFER, links.transfer.serve)
        return links

    def open_relay(self) -> RelayService:
        """Relay between programs outside and nodes from now on."""
        return RelayService(self.gateway, self.place, self._settings.directory, self._reactor)

    def serve(
        self,
        target: str,
        on_messages: Callable[[Connection, list[Message]], None],
        on_close: Callable[[Connection, str], None],
    ) -> None:
        """Serve connections to `target` in this loop."""
        self.gateway.serve_connections(target, on_messages, on_close)

    def pass_strangers_to(self, path: str) -> None:
        """Splice connections that speak another protocol to the UNIX socket at `path`."""
        self.gateway.splice_to = path

    def begin(self) -> None:
        """Take the connections that come by way of the relay; the port takes its own since it is open."""
        if self._relay_link is not None:
            self._relay_link.begin(self.gateway.adopt)

    def close(self) -> None:
        """Stop listening, and close connections that are not handed over yet."""
        self.gateway.close()

    def _open_gateway(self, on_refused: Callable[[str], None]) -> Gateway:
        listen = self._settings.listen
        host, port = parse_host_and_port(listen)
        try:
            return self._listen(host, port, on_refused)
        except OSError as error:
            if self._settings.any_port and error.errno == errno.EADDRINUSE:
                return self._listen(host, 0, on_refused)
            raise OptionError(f"can't listen at {listen}: {error.strerror}; choose another port") from error

    def _listen(self, host: str, port: int, on_refused: Callable[[str], None]) -> Gateway:
        sockets = os.path.join(self._settings.directory, "sockets")
        return Gateway(host, port, self._settings.token, self._reactor, sockets, on_refused, tls=self._tls)

    def _advertised(self) -> str:
        if not self._settings.advertised:
            return self.gateway.address
        host, port = parse_host_and_port(self._settings.advertised)
        return format_host_and_port(host, port or self.gateway.port)

"""The parts of a node that exist because other nodes can reach it: a gateway, an exchange of objects, a relay.

Only the head's node has a relay. A session of one machine, which does not listen, never imports this.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from kernel_processes.node.agent_links import AgentLinks
from kernel_processes.node.object_exchange import ObjectExchange
from kernel_processes.node.process_table import ProcessTable
from kernel_processes.node.relay.service import RelayService
from kernel_processes.node.store_service import StoreService
from kernel_processes.protocol.agent_config import AgentConfig
from kernel_processes.transport.addresses import AGENT, TRANSFER, format_host_and_port, parse_host_and_port
from kernel_processes.transport.credentials import Credentials
from kernel_processes.transport.gateway import Gateway
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import OptionError


def open_gateway(
    config: AgentConfig, reactor: Reactor, tls: Credentials | None, refused: Callable[[str], None]
) -> Gateway:
    """Listen where the settings say, or beside it if they allow; a remote driver's takes only what the relay hands it.

    Raises OptionError when the port can't be had.
    """
    host, port = parse_host_and_port(config.listen) if config.listen else ("", 0)
    sockets = os.path.join(config.directory, "sockets")

    def listen(port: int) -> Gateway:
        return Gateway(host, port, config.token, reactor, sockets, refused, tls=tls)

    try:
        return listen(port)
    except OSError as error:
        if config.any_port and error.errno == errno.EADDRINUSE:
            return listen(0)
        raise OptionError(f"nobody can listen at {config.listen}: {error.strerror}; choose another port") from error


def advertised_address(config: AgentConfig, gateway: Gateway) -> str:
    """Return the place where other machines reach a node with this gateway."""
    if config.relay:
        return config.advertised
    if not config.advertised:
        return gateway.address
    host, port = parse_host_and_port(config.advertised)
    return format_host_and_port(host, port or gateway.port)


def open_exchange(
    gateway: Gateway,
    place: str,
    config: AgentConfig,
    tls: Credentials | None,
    reactor: Reactor,
    store: StoreService,
    processes: ProcessTable,
) -> ObjectExchange:
    """Begin to give objects to other nodes, and to get theirs. This one is reached at `place`."""
    token, relay, send, here = config.token, config.relay, processes.send, processes.connections.__contains__
    agent_links = AgentLinks(token, tls, reactor, send, store.delete, store.keep, relay)
    gateway.serve_connections(AGENT, agent_links.on_messages, agent_links.on_close)
    exchange = ObjectExchange(place, token, tls, reactor, store, agent_links, send, here, relay)
    gateway.serve_sockets(TRANSFER, exchange.transfer.serve)
    return exchange


def open_relay(gateway: Gateway, place: str, config: AgentConfig, reactor: Reactor) -> RelayService:
    """Begin to relay between remote drivers and nodes. This one is reached at `place`."""
    return RelayService(gateway, place, config.directory, reactor)

"""What a node has because others can reach it: a gateway, an exchange of objects, on the head's node a relay.

A session of one machine, where nobody listens, never imports this.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from kernel.node.agent_links import AgentLinks
from kernel.node.object_exchange import ObjectExchange
from kernel.node.relay.service import RelayService
from kernel.transport.addresses import AGENT, TRANSFER, parse_host_and_port
from kernel.transport.gateway import Gateway
from kernel_spec.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernel.node.agent import Agent


def open_gateway(agent: Agent, refused: Callable[[str], None]) -> Gateway:
    """Listen where the settings say, or beside it if they allow; a remote driver's takes only what the relay hands it.

    Raises OptionError when the port can't be had.
    """
    config = agent.config
    host, port = parse_host_and_port(config.listen) if config.listen else ("", 0)
    sockets = os.path.join(config.directory, "sockets")

    def listen(port: int) -> Gateway:
        return Gateway(host, port, config.token, agent.reactor, sockets, refused, tls=agent.tls)

    try:
        return listen(port)
    except OSError as error:
        if config.any_port and error.errno == errno.EADDRINUSE:
            return listen(0)
        raise OptionError(f"nobody can listen at {config.listen}: {error.strerror}; choose another port") from error


def open_exchange(agent: Agent, gateway: Gateway) -> ObjectExchange:
    """Begin to give objects to other nodes, and to get theirs."""
    token, tls, reactor, store, relay = agent.config.token, agent.tls, agent.reactor, agent.store, agent.config.relay
    place, send, here = agent.gateway_address, agent.processes.send, agent.processes.connections.__contains__
    agent_links = AgentLinks(token, tls, reactor, send, store.delete, store.keep, relay)
    gateway.serve_connections(AGENT, agent_links.on_messages, agent_links.on_close)
    exchange = ObjectExchange(place, token, tls, reactor, store, agent_links, send, here, relay)
    gateway.serve_sockets(TRANSFER, exchange.transfer.serve)
    return exchange


def open_relay(agent: Agent, gateway: Gateway) -> RelayService:
    """Begin to relay between remote drivers and nodes."""
    return RelayService(gateway, agent.gateway_address, agent.config.directory, agent.reactor)

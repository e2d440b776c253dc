"""The end of an agent: everything that it has started ends before it, in an order that loses nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kernel.node import sessions
from kernel.node.worker_service import GRACE_SECONDS
from kernel.protocol import process_messages as op
from kernel.protocol.named_messages import packed
from kernel.system.processes import end_descendants

if TYPE_CHECKING:
    from kernel.node.agent import Agent

_UNOBSERVED_SECONDS = 0.5
"""How long workers may take to end when nobody wants to hear what they did last."""
TIDY_SECONDS = 1.0
"""How long the end waits for files that are being removed: what is left goes with the session's directory."""


def shut_down(agent: Agent) -> None:
    """End an agent that serves no longer, because of `agent.ending`."""
    agent.log.debug("the session ends", reason=agent.ending)
    agent.head.stop_services(agent.turn)
    _end_processes(agent)
    agent.listener.close()
    template = agent.workers.template
    if template is not None:
        template.close()
    end_descendants(os.getpid(), frozenset([agent.head.pid]))
    if agent.exchange is not None:
        agent.exchange.close()
    agent.store.close()
    agent.package_fetcher.close()
    agent.tidying.close(TIDY_SECONDS)
    agent.directory.close()
    agent.logs.close()
    agent.head.close(f"it ended: {agent.ending}")
    if agent.relay is not None:
        agent.relay.close()
    if agent.gateway is not None:
        agent.gateway.close()
    if agent.config.ephemeral:
        sessions.remove(agent.config.directory)
    else:
        sessions.end(agent.config.directory, agent.ending or "")


def _end_processes(agent: Agent) -> None:
    """Have workers and drivers end, and show what they wrote until then."""
    for worker in agent.pool.workers.values():
        worker.cause = worker.cause or f"its node ended: {agent.ending}"
    for connection in agent.processes.connections.values():
        connection.send(packed(op.EndProcess(reason=agent.ending or "", drain=False, kindly=True)))
        connection.flush()
    deadline = agent.reactor.clock() + (GRACE_SECONDS if agent.events.wanted else _UNOBSERVED_SECONDS)
    while agent.pool.workers and agent.reactor.clock() < deadline:
        agent.turn(0.05)
    template = agent.workers.template.pid if agent.workers.template is not None else 0
    end_descendants(os.getpid(), frozenset([template, agent.head.pid]))
    agent.logs.drain()
    agent.processes.close("the session ended")

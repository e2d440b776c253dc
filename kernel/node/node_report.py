"""What a node says of itself when the head asks: workers, store, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernel.node.agent import Agent


def node_report(agent: Agent, objects: bool) -> dict[str, Any]:
    """Return what the head shows of a node; with `objects` also every object of the store."""
    server = agent.store.server
    usage = server.usage()
    rows = server.objects() if objects else ()
    pids = [connection.info.pid for connection in agent.processes.connections.values()]
    return {
        "workers": [
            {
                "worker_id": worker.id.hex(),
                "pid": worker.pid,
                "state": worker.state,
                "name": worker.actor or worker.work.name,
                "job_id": worker.key[0].hex(),
                "node_id": agent.node.hex(),
            }
            for worker in agent.pool.workers.values()
        ],
        "store": {name: getattr(usage, name) for name in usage.__dataclass_fields__},
        "memory": agent.memory.status(),
        "held": agent.memory.sizes(pids) if objects else {},
        "stored": [(row.object, row.owner, row.size, row.state, dict(row.pins), row.weak) for row in rows],
    }

"""Report a node's workers, object store and memory to commands."""

from __future__ import annotations

from typing import Any

from kernel_processes.node.memory_watch import MemoryWatch
from kernel_processes.node.process_table import ProcessTable
from kernel_processes.node.store_service import StoreService
from kernel_processes.node.worker_pool import WorkerPool
from kernel_spec.ids import NodeId


class NodeReport:
    """Makes the reports of the node with the id `node`."""

    def __init__(
        self, node: NodeId, processes: ProcessTable, pool: WorkerPool, store: StoreService, memory: MemoryWatch
    ) -> None:
        self._node = node
        self._processes = processes
        self._pool = pool
        self._store = store
        self._memory = memory

    def needed_elsewhere(self) -> int:
        """Return the number of objects in the store that processes of other nodes own, and that are not mere copies."""
        local = {connection.info.id for connection in self._processes.connections.values()}
        rows = self._store.server.objects()
        return sum(row.owner not in local and not row.weak and row.state != "writing" for row in rows)

    def make(self, objects: bool) -> dict[str, Any]:
        """Return the report of this node for the head; with `objects`, also every object of the store."""
        server = self._store.server
        usage = server.usage()
        rows = server.objects() if objects else ()
        pids = [connection.info.pid for connection in self._processes.connections.values()]
        return {
            "workers": [
                {
                    "worker_id": worker.id.hex(),
                    "pid": worker.pid,
                    "state": worker.state,
                    "name": worker.actor or worker.work.name,
                    "job_id": worker.key[0].hex(),
                    "node_id": self._node.hex(),
                }
                for worker in self._pool.workers.values()
            ],
            "store": {name: getattr(usage, name) for name in usage.__dataclass_fields__},
            "memory": self._memory.status(),
            "held": self._memory.sizes(pids) if objects else {},
            "stored": [(row.object, row.owner, row.size, row.state, dict(row.pins), row.weak) for row in rows],
        }

"""The state of a node that the head is told: at joining, when it asks, and again when another head takes over."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kernel_engine.messages.named_messages import Message, packed
from kernel_processes.node.detection import host_name
from kernel_processes.node.head_commands import HeadCommands
from kernel_processes.node.memory_watch import MemoryWatch
from kernel_processes.node.open_requests import OpenRequests
from kernel_processes.node.process_table import ProcessTable
from kernel_processes.node.store_service import StoreService
from kernel_processes.node.worker_service import WorkerService
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.agent_config import AgentConfig
from kernel_processes.protocol.identity import Peer
from kernel_spec.ids import ProcessId
from kernel_spec.labels import labels_of_node
from kernel_spec.version import __version__


class NodeState:
    """Of one node, reached at `place`, with the resources `total` (plain quantities).

    `requests` are what its processes still wait for. `clock` is the reactor's.
    """

    def __init__(
        self,
        commands: HeadCommands,
        config: AgentConfig,
        total: dict[str, float],
        devices: Iterable[str],
        place: str,
        processes: ProcessTable,
        workers: WorkerService,
        requests: OpenRequests,
        store: StoreService,
        memory: MemoryWatch,
        clock: Callable[[], float],
    ) -> None:
        self.total = total
        self._config = config
        self._devices = devices
        self._place = place
        self._processes = processes
        self._workers = workers
        self._requests = requests
        self._store = store
        self._memory = memory
        self._clock = clock
        self._leaves_at: float | None = None
        """When the node, which is being drained, leaves at the latest; infinity where there is no deadline."""
        commands.on(head_messages.DrainNode, lambda said: self._drain(said.seconds))
        commands.on(head_messages.SetResource, lambda said: self._set_resource(*said))
        commands.methods["report"] = lambda then, objects: then(self._report(objects))

    @property
    def leaving(self) -> bool:
        """Whether the node is being drained."""
        return self._leaves_at is not None

    def _drain(self, seconds: float | None) -> None:
        """The node is to leave, in `seconds` at the latest."""
        self._leaves_at = math.inf if seconds is None else self._clock() + seconds

    def _set_resource(self, name: str, quantity: float) -> None:
        """Set a custom resource, which another head must be told of, too."""
        self.total[name] = quantity
        if not quantity:
            del self.total[name]

    def description(self) -> dict[str, Any]:
        """Return the node's part of a `kernel_processes.head.nodes.NodeRecord`."""
        return {
            "total": self.total,
            "labels": labels_of_node(self._config.node.hex(), self._config.labels, self.total),
            "devices": tuple(self._devices) or ("GPU",),
            "host": host_name(),
            "address": self._place,
            "directory": self._config.directory,
            "pid": os.getpid(),
            "version": __version__,
            "client": bool(self._config.relay),
        }

    def introduction(self, peer: Peer) -> Message:
        """Return the message that introduces a process to a head."""
        worker = self._workers.pool.workers.get(peer.id)
        job, environment = worker.key if worker is not None else (peer.details.get("job", b""), "")
        return packed(
            head_messages.ProcessJoined(
                process=peer.id,
                role=peer.role,
                pid=peer.pid,
                address=peer.address,
                job=job,
                environment=environment,
                details=peer.details,
            )
        )

    def snapshot(self, unheard: Sequence[Message]) -> Iterator[Message]:
        """Yield all that a head must know of this node when it takes the place of one that has died."""
        if self._leaves_at is not None:
            left = self._leaves_at - self._clock()
            yield packed(head_messages.StillDraining(seconds=None if math.isinf(left) else max(0.0, left)))
        for connection in self._processes.connections.values():
            yield self.introduction(connection.info)
        for lease, held in self._workers.held.items():
            worker = self._workers.pool.of_lease(lease)
            if worker is not None:
                yield packed(head_messages.GrantedBefore(held=held, worker=worker.id, blocked=worker.blocked))
                if worker.asks:
                    yield (head_messages.LEASE_BLOCKED, lease, False, True)
            else:
                yield packed(head_messages.GrantedBefore(held=held, worker=ProcessId(b""), blocked=False))
        yield from self._requests.to_tell(unheard)

    def _report(self, objects: bool) -> dict[str, Any]:
        """Return what the head shows of a node; with `objects` also every object of the store."""
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
                    "node_id": self._config.node.hex(),
                }
                for worker in self._workers.pool.workers.values()
            ],
            "store": {name: getattr(usage, name) for name in usage.__dataclass_fields__},
            "memory": self._memory.status(),
            "held": self._memory.sizes(pids) if objects else {},
            "stored": [(row.object, row.owner, row.size, row.state, dict(row.pins), row.weak) for row in rows],
        }

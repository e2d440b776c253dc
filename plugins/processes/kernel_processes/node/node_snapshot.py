"""Describe a node to a head that takes over: its processes, leases and open requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernel_engine.messages.named_messages import Message, packed
from kernel_processes.node.node_state import NodeState
from kernel_processes.node.open_requests import OpenRequests
from kernel_processes.node.process_table import ProcessTable
from kernel_processes.node.worker_pool import WorkerPool
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.identity import Peer
from kernel_spec.ids import ProcessId


class NodeSnapshot:
    """Makes the messages that describe this node to a head that takes over. Runs in the agent's loop."""

    def __init__(self, state: NodeState, processes: ProcessTable, pool: WorkerPool, requests: OpenRequests) -> None:
        self._state = state
        self._processes = processes
        self._pool = pool
        self._requests = requests

    def introduction(self, peer: Peer) -> Message:
        """Return the message that introduces a process to a head."""
        worker = self._pool.workers.get(peer.id)
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

    def messages(self, unacknowledged: Sequence[Message]) -> Iterator[Message]:
        """Yield the messages that describe this node to a head that takes over from one that has died.

        `unacknowledged` are messages that the last head may not have received.
        """
        if self._state.leaving:
            yield packed(head_messages.StillDraining(seconds=self._state.leaves_in()))
        for connection in self._processes.connections.values():
            yield self.introduction(connection.info)
        yield from self._leases()
        yield from self._requests.to_resend(unacknowledged)

    def _leases(self) -> Iterator[Message]:
        for lease, held in self._pool.held.items():
            worker = self._pool.of_lease(lease)
            if worker is not None:
                yield packed(head_messages.GrantedBefore(held=held, worker=worker.id, blocked=worker.blocked))
                if worker.asks:
                    yield (head_messages.LEASE_BLOCKED, lease, False, True)
            else:
                yield packed(head_messages.GrantedBefore(held=held, worker=ProcessId(b""), blocked=False))

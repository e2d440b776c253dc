"""Free the objects and records of a process that has ended, on this node or another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.ended_processes import EndedProcesses
from kernel_engine.messages.named_messages import packed
from kernel_processes.node.head_client import HeadClient
from kernel_processes.node.process_table import ProcessTable
from kernel_processes.node.store_service import StoreService
from kernel_processes.protocol import head_messages
from kernel_spec.ids import ProcessId

if TYPE_CHECKING:
    from kernel_processes.node.object_exchange import ObjectExchange

ENDED_KEPT = 100_000
"""The number of ended processes that an agent remembers."""


class ProcessEnds:
    """Notes in `ended` which processes have ended, and frees the objects stored for them. Runs in the agent's loop.

    `exchange` is None on a node that works alone.
    """

    def __init__(
        self,
        ended: EndedProcesses,
        head: HeadClient,
        processes: ProcessTable,
        store: StoreService,
        exchange: ObjectExchange | None,
    ) -> None:
        self._ended = ended
        self._processes = processes
        self._store = store
        self._exchange = exchange
        head.on(head_messages.ProcessesGone, self._gone)
        processes.methods["has_ended"] = lambda connection, process: process in ended

    def note(self, process: ProcessId) -> None:
        """A process, here or elsewhere, has ended: free what is stored for it."""
        self._ended.add(process)
        if self._exchange is not None:
            self._exchange.process_left(process)
        self._store.client_left(process)

    def _gone(self, said: head_messages.ProcessesGone) -> None:
        """Processes of other nodes have ended, perhaps with their whole node, of which those here must be told."""
        for process in said.processes:
            self.note(process)
        if said.place and self._exchange is not None:
            self._exchange.node_left(said.place)
            self._processes.broadcast(packed(op.PeersGone(processes=said.processes, place=said.place)))

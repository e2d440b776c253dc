"""Drain nodes: carry out what the table of draining nodes decides. Runs in the head's loop."""

from __future__ import annotations

from typing import Any

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import packed
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.drains import AskBack, CopyObjects, DrainTable, Instruction, LookAtStore
from kernel_processes.head.lease_manager import LeaseManager
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import NodeRecord, ProcessRecord
from kernel_processes.protocol import head_messages
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import OptionError
from kernel_spec.ids import LeaseId, NodeId, ObjectId
from kernel_spec.scheduling import DrainCancelled, NodeDraining

LOOK_SECONDS = 0.1


class DrainService:
    """Carries out `kernel.drain_node`, and takes it back where it is cancelled."""

    def __init__(
        self, dispatcher: MessageDispatcher, cluster: ClusterTable, leases: LeaseManager, reactor: Reactor
    ) -> None:
        self._cluster = cluster
        self._leases = leases
        self._reactor = reactor
        self.table = DrainTable()
        self._looking = False
        self._rows: dict[ObjectId, tuple[Any, ...]] = {}
        """Objects to be copied now, to their size, owner, and the owner's address."""
        dispatcher.methods |= {"drain_node": self._drain, "cancel_drain": self._cancel}
        dispatcher.on(head_messages.StillDraining, lambda node, said: self.begin(node, said.seconds))

    def _drain(self, caller: ProcessRecord, node_id: str, seconds: float | None) -> None:
        """Let a node leave. Raises OptionError for an unknown node, and for one that can't leave."""
        node = self._cluster.node_named(node_id)
        if seconds is not None and seconds < 0:
            raise OptionError(f"the deadline of a node that is drained must be zero seconds or more, not {seconds}")
        if node.id == self._cluster.beside:
            raise OptionError(
                f"node {node_id} is beside the head, which can't do without it; `kernel stop` there ends the cluster, "
                "and a head that is started with --num-cpus 0 runs nothing"
            )
        self.begin(node, seconds)

    def _cancel(self, caller: ProcessRecord, node_id: str) -> None:
        """Let a node stay after all. Raises OptionError for an unknown node, and for one that has been told to end."""
        node = self._cluster.node_named(node_id)
        if not self.table.cancel(node.id):
            raise OptionError(f"node {node_id} was drained and is ending: its drain can't be cancelled any more")
        if node.draining:
            node.draining = False
            node.send(packed(head_messages.CancelDrain()))
            self._leases.handle(DrainCancelled(node.id))

    def begin(self, node: NodeRecord, seconds: float | None) -> None:
        """Let a node go, in `seconds` at the latest."""
        now = self._reactor.clock()
        self.table.begin(node.id, None if seconds is None else now + seconds, now)
        node.send(packed(head_messages.DrainNode(seconds=seconds)))
        if not node.draining:
            node.draining = True
            self._leases.handle(NodeDraining(node.id))
        if not self._looking:
            self._look()

    def _look(self) -> None:
        for id in list(self.table.drains):
            node = self._cluster.nodes[id]
            if node.alive:
                self._carry_out(self.table.look(id, self._leases_on(id), self._reactor.clock()))
            else:
                self.table.gone(id)
        self._looking = bool(self.table.drains)
        if self._looking:
            self._reactor.call_later(LOOK_SECONDS, self._look)

    def _leases_on(self, node: NodeId) -> list[LeaseId]:
        records = self._leases.leases
        return [id for id, one in records.items() if one.worker is not None and one.grant and one.grant.node == node]

    def _is_busy(self, node: NodeId) -> bool:
        """Return whether any process runs there, or is about to."""
        if any(one.grant is not None and one.grant.node == node for one in self._leases.leases.values()):
            return True
        return any(one.node.id == node and one.role in ("driver", "worker") for one in self._cluster.callers.values())

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for step in instructions:
            if isinstance(step, AskBack):
                for lease in step.leases:
                    holder = self._leases.leases[lease].holder
                    if holder is not None:
                        holder.send((op.RECLAIM_LEASE, lease))
            elif isinstance(step, LookAtStore):
                self._look_at_store(self._cluster.nodes[step.node])
            elif isinstance(step, CopyObjects):
                self._copy(step)
            else:
                node = self._cluster.nodes[step.node]
                node.drained = True
                node.send(packed(head_messages.EndNode(reason=step.reason)))

    def _look_at_store(self, node: NodeRecord) -> None:
        busy = self._is_busy(node.id)  # Asked first, so that results of tasks that end meanwhile count.
        drain = self.table.drains[node.id]

        def reported(report: dict[str, Any] | None) -> None:
            if self.table.drains.get(node.id) is not drain:
                return  # It was cancelled meanwhile, and perhaps began anew.
            owners: dict[ObjectId, NodeId] = {}
            for object, owner, size, state, _, weak in report["stored"] if report is not None else ():
                caller = self._cluster.callers.get(owner)
                if caller is not None and state != "writing" and not weak:  # A weak object is a copy of another.
                    owners[object] = caller.node.id
                    self._rows[object] = (object, size, owner, caller.address)
            stay = [other.id for other in self._cluster.working_nodes() if not other.draining and other.address]
            self._carry_out(self.table.stored(node.id, owners, stay, busy or self._is_busy(node.id)))
            self._rows.clear()

        self._cluster.ask_node(node, "report", reported, True)

    def _copy(self, step: CopyObjects) -> None:
        source, target = self._cluster.nodes[step.node], self._cluster.nodes[step.target]
        rows = [self._rows[object] for object in step.objects]
        drain = self.table.drains[step.node]

        def copied(answer: object) -> None:
            if self.table.drains.get(step.node) is drain:
                self.table.copied(step.node, step.objects)

        self._cluster.ask_node(target, "copy", copied, rows, source.address)

"""Carry on after the death of a head: read what it wrote down, and wait for the nodes to report what they know."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from functools import partial
from typing import Any

from kernel_engine.messages.named_messages import packed
from kernel_processes.head.head import Head
from kernel_processes.head.nodes import NodeRecord
from kernel_processes.protocol import head_messages
from kernel_spec.ids import LeaseId, NodeId

RESTORE_SECONDS = 10.0
"""Seconds for which a restarted head waits for the nodes of the session."""


class Recovery:
    """The time from a head's restart until it knows all that is left of the session. It grants nothing meanwhile."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._missing: set[NodeId] = set()
        head.dispatcher.on(head_messages.GrantedBefore, self._lease_held)
        head.dispatcher.on(head_messages.AllTold, lambda node, said: self._all_told(node))

    def begin(self, seconds: float = RESTORE_SECONDS) -> None:
        """Wait for the nodes there were, `seconds` at most, then go on without the rest."""
        head = self._head
        for description in head.journal.environments():
            head.jobs.environments.key_of(description)
        for job in head.journal.jobs():
            head.jobs.table.jobs[job.id] = job
        for record in head.journal.actors():
            head.actors.table.restore(record)
        for group in head.journal.groups():
            head.groups.table.restore(group)
        nodes = head.journal.nodes()
        self._missing = {id for id, cause in nodes.items() if not cause} | head.remote_drivers.restore()
        head.cluster.fallen = {id: cause for id, cause in nodes.items() if cause}
        head.cluster.recovering = True
        head.lease_manager.hold()
        head.reactor.call_later(seconds, self._finish)

    def _lease_held(self, node: NodeRecord, said: head_messages.GrantedBefore) -> None:
        request, grant, grants = pickle.loads(said.held)
        self._head.lease_manager.held(grant, request, grants, said.worker, said.blocked)

    def _all_told(self, node: NodeRecord) -> None:
        self._missing.discard(node.id)
        if not self._missing:
            self._finish()

    def _finish(self) -> None:
        head, cluster = self._head, self._head.cluster
        if not cluster.recovering:
            return
        cluster.recovering = False
        for id in self._missing - head.remote_drivers.missing(self._missing):
            cluster.fallen[id] = "it did not come back when the head was started again"
            head.journal.node(id, cluster.fallen[id])
        self._announce_dead_nodes()
        head.groups.resume()
        head.lease_manager.adopt(cluster.callers, head.actors.table.leases)
        head.actors.resume()
        head.dispatcher.replay()
        self._drop_leases_nobody_has()
        for job in list(head.jobs.table.jobs.values()):
            if job.is_program and not job.ended and job.driver not in cluster.callers:
                head.jobs.end(job.driver)
                head.groups.job_ended(job.id)
        head.jobs.forget_ended()
        head.lease_manager.go_on()
        head.requests.refuse_the_hopeless()
        for node in cluster.living_nodes():
            cluster.ask_node(node, "report", partial(self._forget_owners, node), True)
        text = "the session goes on with another head"
        head.log.warning(text, nodes=len(cluster.nodes), lost_nodes=len(self._missing))

    def _announce_dead_nodes(self) -> None:
        """Say which nodes are gone: an earlier head may not have come to it."""
        living = {node.address for node in self._head.cluster.living_nodes()}
        for address in self._head.journal.addresses_of(self._head.cluster.fallen) - living:
            for node in self._head.cluster.living_nodes():
                node.send(packed(head_messages.ProcessesGone(processes=[], place=address)))

    def _drop_leases_nobody_has(self) -> None:
        """Release leases that were returned to an earlier head, or of which their holders were never told."""
        for caller, leases in self._head.lease_manager.held_by().items():
            self._head.cluster.ask(caller, "leases_not_held", self._release_all, leases)

    def _release_all(self, leases: list[LeaseId] | None) -> None:
        for id in leases or ():
            self._head.lease_manager.release(id, broken=True)

    def _forget_owners(self, node: NodeRecord, report: Mapping[str, Any] | None) -> None:
        """Have a node free what is owned by processes that were lost while there was no head."""
        gone = {row[1] for row in report["stored"]} - self._head.cluster.callers.keys() if report is not None else ()
        if gone:
            node.send(packed(head_messages.ProcessesGone(processes=list(gone), place="")))

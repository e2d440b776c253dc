"""Recover after the death of a head: read its journal, and wait for the nodes to report their state."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import Any

from kernel.logs import Logger
from kernel_engine.messages.named_messages import packed
from kernel_processes.head.actor_service import ActorService
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.group_service import GroupService
from kernel_processes.head.job_service import JobService
from kernel_processes.head.journal import Journal
from kernel_processes.head.lease_manager import LeaseManager
from kernel_processes.head.lease_service import LeaseService
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import NodeRecord
from kernel_processes.head.remote_drivers import RemoteDrivers
from kernel_processes.protocol import head_messages
from kernel_processes.transport.reactor import Reactor
from kernel_spec.ids import LeaseId, NodeId

RESTORE_SECONDS = 10.0
"""Seconds for which a restarted head waits for the nodes of the session."""


class EarlierNodes:
    """Knows the nodes and remote drivers of an earlier head: which came back, and which did not."""

    def __init__(
        self,
        dispatcher: MessageDispatcher,
        cluster: ClusterTable,
        journal: Journal,
        remote_drivers: RemoteDrivers,
        reactor: Reactor,
    ) -> None:
        self._cluster = cluster
        self._journal = journal
        self._remote_drivers = remote_drivers
        self._reactor = reactor
        self._missing: set[NodeId] = set()
        self._then: Callable[[], None] = lambda: None
        dispatcher.on(head_messages.AllTold, lambda node, said: self._all_told(node))

    def wait(self, seconds: float, then: Callable[[], None]) -> None:
        """Call `then` when all nodes have reported, after `seconds` at most; missing nodes are then gone."""
        nodes = self._journal.nodes()
        self._missing = {id for id, cause in nodes.items() if not cause} | self._remote_drivers.restore()
        self._cluster.fallen = {id: cause for id, cause in nodes.items() if cause}
        self._cluster.recovering = True
        self._then = then
        self._reactor.call_later(seconds, self.give_up)

    def _all_told(self, node: NodeRecord) -> None:
        self._missing.discard(node.id)
        if not self._missing:
            self.give_up()

    def give_up(self) -> None:
        """Stop waiting: declare missing nodes dead, and announce all dead nodes to the others."""
        cluster = self._cluster
        if not cluster.recovering:
            return
        cluster.recovering = False
        for id in self._missing - self._remote_drivers.missing(self._missing):
            cluster.fallen[id] = "it did not come back when the head was started again"
            self._journal.node(id, cluster.fallen[id])
        self._announce_dead_nodes()
        self._then()
        for node in cluster.living_nodes():
            cluster.ask_node(node, "report", partial(self._forget_owners, node), True)
        text = "the session goes on with another head"
        Logger("kernel.head").warning(text, nodes=len(cluster.nodes), lost_nodes=len(self._missing))

    def _announce_dead_nodes(self) -> None:
        """Announce which nodes are gone, because an earlier head may not have done so."""
        living = {node.address for node in self._cluster.living_nodes()}
        for address in self._journal.addresses_of(self._cluster.fallen) - living:
            for node in self._cluster.living_nodes():
                node.send(packed(head_messages.ProcessesGone(processes=[], place=address)))

    def _forget_owners(self, node: NodeRecord, report: Mapping[str, Any] | None) -> None:
        """Let a node free objects whose owners were lost while there was no head."""
        gone = {row[1] for row in report["stored"]} - self._cluster.callers.keys() if report is not None else ()
        if gone:
            node.send(packed(head_messages.ProcessesGone(processes=list(gone), place="")))


class EarlierLeases:
    """Gathers the leases of an earlier head, as nodes and holders report them. Nothing is granted meanwhile."""

    def __init__(
        self, dispatcher: MessageDispatcher, cluster: ClusterTable, leases: LeaseManager, service: LeaseService
    ) -> None:
        self._dispatcher = dispatcher
        self._cluster = cluster
        self._leases = leases
        self._service = service
        dispatcher.on(head_messages.GrantedBefore, self._held)

    def hold(self) -> None:
        """Grant nothing until `go_on`."""
        self._leases.hold()

    def _held(self, node: NodeRecord, said: head_messages.GrantedBefore) -> None:
        request, grant, grants = pickle.loads(said.held)
        self._leases.held(grant, request, grants, said.worker, said.blocked)

    def adopt(self, of_actors: Container[LeaseId]) -> None:
        """Assign each lease to its holder, now that all processes are known; a lease without a holder ends."""
        self._leases.adopt(self._cluster.callers, of_actors)

    def replay(self) -> None:
        """Handle messages about leases that processes sent meanwhile, and release leases that their holders don't have.

        Those were returned to an earlier head, or their holders never got the grant.
        """
        self._dispatcher.replay()
        for caller, leases in self._leases.held_by().items():
            self._cluster.ask(caller, "leases_not_held", self._release_all, leases)

    def _release_all(self, leases: list[LeaseId] | None) -> None:
        for id in leases or ():
            self._leases.release(id, broken=True)

    def go_on(self) -> None:
        """Grant leases again, and refuse requests that the remaining nodes can never serve."""
        self._leases.go_on()
        self._service.refuse_the_hopeless()


class Recovery:
    """Waits after a head's restart until the state of the session is known. It grants nothing meanwhile."""

    def __init__(
        self,
        cluster: ClusterTable,
        nodes: EarlierNodes,
        leases: EarlierLeases,
        jobs: JobService,
        actors: ActorService,
        groups: GroupService,
    ) -> None:
        self._cluster = cluster
        self.nodes = nodes
        self._leases = leases
        self._jobs = jobs
        self._actors = actors
        self._groups = groups

    def begin(self, seconds: float = RESTORE_SECONDS) -> None:
        """Wait for the earlier nodes, `seconds` at most, then go on without the missing ones."""
        self._jobs.restore()
        self._actors.restore()
        self._groups.restore()
        self._leases.hold()
        self.nodes.wait(seconds, self._resume)

    def _resume(self) -> None:
        """Restore the state: groups before the leases in them, leases before the actors that hold them."""
        processes = self._cluster.callers.keys()
        nodes = {node.id for node in self._cluster.living_nodes()}
        self._groups.resume(nodes, self._jobs.running() | processes)
        self._leases.adopt(self._actors.table.leases)
        self._actors.resume(processes)
        self._leases.replay()
        for job in self._jobs.end_lost():
            self._groups.job_ended(job)
        self._jobs.forget_ended()
        self._leases.go_on()

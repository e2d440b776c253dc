"""The head of a session: it connects its parts and decides nothing itself.

Nodes send it messages over links (`kernel_processes.protocol.head_messages`); requests of their processes arrive as
messages of a `ProcessRecord`.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kernel.logs import Logger
from kernel.plugin_faults import told
from kernel.plugins import PluginManager
from kernel_engine.messages.named_messages import packed
from kernel_processes.head.actor_queries import ActorQueries
from kernel_processes.head.actor_requests import ActorRequests
from kernel_processes.head.actor_service import ActorService
from kernel_processes.head.actor_subscriptions import ActorSubscriptions
from kernel_processes.head.actor_workers import ActorWorkers
from kernel_processes.head.actors import ActorTable
from kernel_processes.head.breakpoint_table import BreakpointTable
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.demand_queries import DemandQueries
from kernel_processes.head.demand_watch import DemandWatch
from kernel_processes.head.drain_service import DrainService
from kernel_processes.head.driver_output import DriverOutput
from kernel_processes.head.explanations import Explanations
from kernel_processes.head.failure_table import FailureTable
from kernel_processes.head.gathering import Gathering
from kernel_processes.head.group_requests import GroupRequests
from kernel_processes.head.group_service import GroupService
from kernel_processes.head.groups import GroupTable
from kernel_processes.head.head_service_host import HeadServiceHost
from kernel_processes.head.job_service import JobService
from kernel_processes.head.journal import Journal
from kernel_processes.head.key_value_service import KeyValueService
from kernel_processes.head.lease_manager import LeaseManager
from kernel_processes.head.lease_requests import LeaseHolders, LeaseRequests
from kernel_processes.head.lease_service import LeaseService
from kernel_processes.head.membership import NodeMembership
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.metadata_guard import guarded
from kernel_processes.head.metrics_service import MetricsService
from kernel_processes.head.metrics_sinks import MetricsSinks
from kernel_processes.head.nodes import NodeRecord, ProcessRecord
from kernel_processes.head.observation import Observation
from kernel_processes.head.package_service import PackageService
from kernel_processes.head.process_queries import ProcessQueries
from kernel_processes.head.process_service import ProcessService
from kernel_processes.head.recovery import EarlierLeases, EarlierNodes, Recovery
from kernel_processes.head.remote_drivers import RemoteDrivers
from kernel_processes.head.resource_service import ResourceService
from kernel_processes.head.status_queries import StatusQueries
from kernel_processes.head.tool_clients import ToolClients
from kernel_processes.head.worker_orders import WorkerOrders
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.pickled import Pickled
from kernel_processes.transport.reactor import Reactor
from kernel_spec import observers
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import MetadataError
from kernel_spec.ids import GroupId, NodeId
from kernel_spec.metadata import LastingMetadataStore, MetadataStore
from kernel_spec.scheduling import Bundle
from kernel_spec.services import HeadInfo

TICK_SECONDS = 0.1
STARTER_ENDED = "the program that started it ended"


@dataclass(slots=True)
class HeadConfig:
    """Holds the settings of one head. An `ephemeral` session ends with the program that started it.

    `address` is where programs find it: a session's directory, or `kernel://HOST:PORT`. `node` is the node beside it,
    which is gone when the head is restarted with the metadata of `metadata_directory` (default: `directory`).
    """

    directory: str
    address: str
    ephemeral: bool
    head_services: Sequence[str] = ()
    node: bytes = b""
    metadata_directory: str = ""


class Head:
    """Connects the parts of a head, each of which registers with the `dispatcher` for the messages that it handles.

    `on_end(reason)` is called once the session is to end.
    """

    def __init__(
        self,
        config: HeadConfig,
        reactor: Reactor,
        manager: PluginManager,
        on_end: Callable[[str], None],
        log: Logger | None = None,
    ) -> None:
        self.config = config
        self.reactor = reactor
        self.log = log or Logger("kernel.head")
        self.ending: str | None = None
        self._on_end = on_end
        self._label = manager.label
        self.cluster = ClusterTable(NodeId(config.node), int.from_bytes(os.urandom(4), "little"))
        self.dispatcher = MessageDispatcher(self.cluster, self.log)
        self._gathering = Gathering(self.cluster, reactor)
        self.output = DriverOutput(self.dispatcher, self.cluster, self._gathering, self.log)
        self.observation = self._observe(manager)
        manager.choose("node_provider")  # Refuse an unknown name now; the autoscaler makes the provider.
        self.metadata = self._open_metadata(manager)
        self.journal = Journal(self.metadata)
        actors, groups = ActorTable(), GroupTable()
        self.jobs = JobService(self.dispatcher, self.cluster, self.journal, actors)
        orders = WorkerOrders(self.dispatcher, self.cluster, self.jobs, self.journal.durable)
        self.lease_manager = LeaseManager(manager.make("scheduler"), reactor.clock, orders, self._placed, self.end)
        self._serve_leases(actors, groups, orders)
        self.breakpoints = BreakpointTable(self.dispatcher, self.cluster, self.output)
        self.metrics = MetricsService(self.dispatcher, self.cluster, self._gathering, self.lease_manager, actors)
        self.processes = self._serve_processes()
        names = list(config.head_services) or None
        services = manager.make_many("head_service", names)
        self.services = HeadServiceHost(services, manager.options_of, self.output.plugin_fault)
        self._answer_questions(manager)
        self.packages = PackageService(self.dispatcher, config.directory, reactor, self.log)
        KeyValueService(self.dispatcher, self.metadata)
        FailureTable(self.dispatcher, self.observation, self.output)
        DrainService(self.dispatcher, self.cluster, self.lease_manager, reactor)
        self.remote_drivers = RemoteDrivers(self.cluster, self.journal)
        self.recovery = self._prepare_recovery()

    # -- the parts -------------------------------------------------------------------------------------------------

    def _observe(self, manager: PluginManager) -> Observation:
        clock = self.reactor.clock
        observation = Observation(manager.all("observer"), clock, self._observe_nodes, self._plugin_failed)
        on = self.dispatcher.on
        on(head_messages.LifeCycleEvents, lambda node, said: observation.note_all(said.events))
        on(head_messages.WorkerCalls, lambda node, said: observation.note_calls(said.worker, said.calls))
        return observation

    def _open_metadata(self, manager: PluginManager) -> MetadataStore:
        config = self.config
        made = manager.make("metadata_store", config.metadata_directory or config.directory)
        metadata = guarded(made, manager.label(made))
        if isinstance(metadata, LastingMetadataStore):
            me = f"the head of {config.address}, process {os.getpid()} on {socket.gethostname()}"
            metadata.claim(me.encode())
        return metadata

    def _serve_leases(self, actors: ActorTable, groups: GroupTable, orders: WorkerOrders) -> None:
        """Make what asks for leases: processes, actors, placement groups."""
        dispatcher, cluster, jobs, journal = self.dispatcher, self.cluster, self.jobs, self.journal
        leases, observation, reactor = self.lease_manager, self.observation, self.reactor
        requests = LeaseRequests(cluster, groups, jobs, leases)
        subscriptions = ActorSubscriptions(dispatcher, cluster, actors, observation)
        workers = ActorWorkers(requests, leases, orders)
        self.actors = ActorService(actors, journal, workers, subscriptions, reactor)
        ActorRequests(dispatcher, actors, self.actors, jobs)
        self._holders = LeaseHolders(cluster, leases, self.actors)
        self._lease_service = LeaseService(dispatcher, requests, leases, self._holders, observation, reactor)
        self.groups = GroupService(groups, journal, leases, self._holders, observation)
        self._group_requests = GroupRequests(dispatcher, groups, self.groups, jobs, leases)

    def _serve_processes(self) -> ProcessService:
        """Make what knows the processes, and tells the other parts, in this order, when one is gone."""
        leases, actors, jobs, groups = self.lease_manager, self.actors, self.jobs, self.groups
        followers = (self.metrics, self.breakpoints, leases, actors, jobs, groups, self)
        return ProcessService(self.dispatcher, self.cluster, self.jobs, self.output, self.observation, followers)

    def _prepare_recovery(self) -> Recovery:
        dispatcher, cluster, reactor = self.dispatcher, self.cluster, self.reactor
        nodes = EarlierNodes(dispatcher, cluster, self.journal, self.remote_drivers, reactor)
        leases = EarlierLeases(dispatcher, cluster, self.lease_manager, self._lease_service)
        return Recovery(cluster, nodes, leases, self.jobs, self.actors, self.groups)

    def membership(self, shared: Mapping[str, Any], death_seconds: float) -> NodeMembership:
        """Return what lets other nodes in. Each is sent the settings `shared`; one that is silent for long is dead."""
        tools = ToolClients(self.dispatcher, self.cluster, self.breakpoints)
        handle, cluster, reactor = self.dispatcher.handle, self.cluster, self.reactor
        return NodeMembership(self, handle, cluster, tools, reactor, shared, death_seconds)

    def _answer_questions(self, manager: PluginManager) -> None:
        """Make what answers processes and tools."""
        dispatcher, cluster, leases = self.dispatcher, self.cluster, self.lease_manager
        started = time.time()
        gathering = self._gathering
        actors = ActorQueries(dispatcher, cluster, self.actors.table, leases)
        ProcessQueries(dispatcher, cluster, gathering, self.actors.table, self.observation)
        Explanations(dispatcher, gathering, actors, self._group_requests, self.breakpoints)
        self.sinks = MetricsSinks(
            manager.make_many("metrics_sink"), self.metrics, self.reactor.call_later, time.time, self._plugin_failed
        )
        ResourceService(dispatcher, cluster, leases)
        needs = {"groups": self._group_requests.waiting, "asked": self.jobs.asked}
        DemandQueries(dispatcher, cluster, gathering, leases, self.reactor.clock, needs)
        self.jobs.on_asked = DemandWatch(dispatcher, leases, self.reactor).note
        sections: dict[str, Callable[[], Any]] = {
            "session": lambda: self.config.directory,
            "started": lambda: started,
            "metadata": lambda: {"name": self.metadata.name, "durable": self.journal.durable},
            "actors": actors.rows,
            "placement_groups": self._group_requests.rows,
            "jobs": self.jobs.rows,
            "services": lambda: self.services.shown,
            "problems": lambda: {name: str(error) for name, error in manager.problems.items()},
        }
        StatusQueries(dispatcher, cluster, leases, gathering, self.reactor, sections)
        dispatcher.methods["plugin_catalog"] = lambda caller: Pickled.of(manager.catalog())
        dispatcher.methods["stop"] = lambda caller: self.end("it was asked to stop")
        dispatcher.on(head_messages.EndSession, lambda node, said: self.end(said.reason))

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the head's timers and services."""
        self.reactor.call_later(TICK_SECONDS, self._tick)
        self.sinks.start()
        self.services.start(HeadInfo(self.config.address, self.config.directory, {}))

    def end(self, reason: str) -> None:
        """End the session."""
        if self.ending is None:
            self.ending = reason
            for node in self.cluster.living_nodes():
                node.send(packed(head_messages.EndNode(reason=reason)))
            self._on_end(reason)

    def _plugin_failed(self, plugin: object, error: Exception) -> None:
        """Report to every program that a plugin raised, and is not called any more."""
        self.output.plugin_fault(told(self._label(plugin), error, "it is asked no more"))

    def process_left(self, caller: ProcessRecord) -> None:
        """A process is gone: with the program that started an ephemeral session, that ends."""
        if caller.role == "driver" and caller.details.get("starter") and self.config.ephemeral:
            self.end(STARTER_ENDED)

    def close(self) -> None:
        """Close the metadata store; if the session has ended, notify the observers and remove its metadata.

        The nodes have left before, or go on without this head until there is another.
        """
        if self.ending is not None:
            for node in self.cluster.working_nodes():
                self.observation.happened(observers.NODE, observers.DEAD, node.id, {"cause": self.ending})
        self.observation.deliver()
        self.sinks.close()
        self.packages.close()
        over = self.ending is not None and isinstance(self.metadata, LastingMetadataStore)
        try:
            self.metadata.discard() if over else self.metadata.close()
        except MetadataError as error:
            what = "removed" if over else "closed"
            self.log.warning(f"the session's metadata could not be {what}", reason=str(error))

    def _placed(self, group: GroupId, bundles: Iterable[Bundle]) -> None:
        """Tell the placement groups, which are made after the leases, what the scheduler has placed."""
        self.groups.placed(group, bundles)

    def _tick(self) -> None:
        self.reactor.call_later(TICK_SECONDS, self._tick)
        if self.journal.behind:
            self.journal.catch_up()
        if self.lease_manager.waiting or self.groups.table.waiting:
            self.lease_manager.tick()

    # -- nodes -----------------------------------------------------------------------------------------------------

    def add_node(self, node: NodeRecord) -> None:
        """A node joined."""
        self.cluster.nodes[node.id] = node
        self.remote_drivers.node_added(node)
        node.send(packed(head_messages.Observe(wanted=self.observation.active)))
        if not node.client:
            self.journal.node(node.id)
            self.journal.address(node.id, node.address)
            self.observation.happened(observers.NODE, observers.ALIVE, node.id, {"resources": node.total})
            self.lease_manager.add_node(node.id, node.total, dict(node.labels), node.devices)

    def remove_node(self, node: NodeRecord, cause: str) -> None:
        """A node is gone, with all of its processes."""
        if not node.alive:
            return
        node.alive, node.cause = False, cause
        self.remote_drivers.node_removed(node)
        if not node.client:
            self.journal.node(node.id, cause)
            self.observation.happened(observers.NODE, observers.DEAD, node.id, {"cause": cause})
        if self.ending is None:
            what = "a remote driver is gone" if node.client else "a node is gone"
            self.log.warning(what, node=node.id.hex(), host=node.host, cause=cause)
        self.cluster.lost(node)
        lost = [caller.id for caller in self.cluster.callers.values() if caller.node is node]
        self.groups.node_lost(node, cause)
        workers = set(lost).union([] if node.client else self.lease_manager.remove_node(node.id))
        for other in self.cluster.living_nodes():
            other.send(packed(head_messages.ProcessesGone(processes=lost, place=node.address)))
        for id in lost:
            self.processes.forget(id)
        for id in workers:
            self._holders.worker_lost(id, cause)
        self._lease_service.refuse_the_hopeless()

    def _observe_nodes(self, wanted: bool) -> None:
        """Let the nodes start or stop reporting their events."""
        for node in self.cluster.living_nodes():
            node.send(packed(head_messages.Observe(wanted=wanted)))

"""The agent connects the parts of a node in one loop. It decides nothing itself.

It passes requests of its processes on to the head, which may be in the same process. The program that creates the agent
provides the function that makes such a head: a node knows the head by its messages only.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernel.logs import Logger
from kernel.plugins import PluginManager
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.ended_processes import EndedProcesses
from kernel_engine.messages.named_messages import Message, packed
from kernel_processes.node import sessions
from kernel_processes.node.agent_head import AgentHead, MakeLocalHead, RemoteHead
from kernel_processes.node.checked_memory_guard import open_guard
from kernel_processes.node.detection import choose_store_bytes, detect_devices, total_resources
from kernel_processes.node.directory_watch import DirectoryWatch
from kernel_processes.node.guarded_workers import GuardedWorkers
from kernel_processes.node.head_child import HeadChild
from kernel_processes.node.head_client import HeadClient
from kernel_processes.node.head_link import RemoteHeadLink
from kernel_processes.node.housekeeping import Housekeeping
from kernel_processes.node.log_service import LogService
from kernel_processes.node.memory_readings import MemoryReadings
from kernel_processes.node.memory_watch import MemoryWatch
from kernel_processes.node.node_events import NodeEvents
from kernel_processes.node.node_memory import NodeMemory
from kernel_processes.node.node_report import NodeReport
from kernel_processes.node.node_snapshot import NodeSnapshot
from kernel_processes.node.node_state import NodeState
from kernel_processes.node.open_requests import OpenRequests
from kernel_processes.node.output_routing import OutputRouting
from kernel_processes.node.overflow_server import OverflowServer
from kernel_processes.node.process_ends import ENDED_KEPT, ProcessEnds
from kernel_processes.node.process_relay import RelayToHead, RelayToProcesses
from kernel_processes.node.process_table import ProcessTable
from kernel_processes.node.shutdown import end_processes
from kernel_processes.node.store_clients import StoreClients
from kernel_processes.node.store_disk import StoreDisk
from kernel_processes.node.store_guard import open_server
from kernel_processes.node.store_service import StoreService
from kernel_processes.node.template_link import TemplateLink
from kernel_processes.node.worker_control import GRACE_SECONDS, WorkerControl
from kernel_processes.node.worker_environments import WorkerEnvironments
from kernel_processes.node.worker_exits import WorkerExits
from kernel_processes.node.worker_forks import WorkerForks
from kernel_processes.node.worker_leases import WorkerLeases
from kernel_processes.node.worker_pool import WorkerPool
from kernel_processes.node.worker_service import WorkerService
from kernel_processes.node.worker_surroundings import WorkerSurroundings
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.agent_config import AgentConfig
from kernel_processes.protocol.identity import Peer
from kernel_processes.system.processes import end_descendants
from kernel_processes.transport.addresses import is_tcp, parse_host_and_port, place_of
from kernel_processes.transport.background import Background
from kernel_processes.transport.connection import ATTACH_OPERATION, Connection
from kernel_processes.transport.reactor import Reactor
from kernel_processes.transport.unix_listener import UnixListener
from kernel_spec.errors import PluginError
from kernel_spec.ids import JobId, NodeId
from kernel_spec.memory_guards import MemorySettings

if TYPE_CHECKING:
    from kernel_processes.node.object_exchange import ObjectExchange
    from kernel_spec.networks import NetworkRelay, NodeNetwork

STARTER_ENDED = "the program that started it ended"
UNOBSERVED_SECONDS = 0.5
"""Seconds for workers to end when no observer wants their last events."""
TIDY_SECONDS = 1.0
"""Seconds that the agent's end waits for the removal of files; the session's directory takes the others with it."""


class Agent:
    """Connects the parts of one node, and dispatches the messages of its processes to them."""

    def __init__(
        self,
        config: AgentConfig,
        reactor: Reactor,
        manager: PluginManager,
        make_local_head: MakeLocalHead,
        head_link: RemoteHeadLink | None = None,
        head_child: HeadChild | None = None,
        network: NodeNetwork | None = None,
    ) -> None:
        self.config = config
        self.reactor = reactor
        self.manager = manager
        self.log = Logger("kernel.node")
        self.node = NodeId(config.node)
        self.ending: str | None = None
        self._ended = EndedProcesses(ENDED_KEPT)
        """Processes that have ended, on any node: nothing is stored for them any more."""
        self.head_client = HeadClient(self.log)
        self.requests = OpenRequests()
        self._relay = RelayToHead(self.head_client, self.requests)
        self.processes = ProcessTable(self.log, self._joined, self._left, self._relay.pass_on, self._refused)
        RelayToProcesses(self.head_client, self.processes, self.requests)
        self.pool = WorkerPool(lambda: os.urandom(8))
        self.events = NodeEvents(self.head_client, self.pool, self.processes, reactor.clock)
        self.output = OutputRouting(self.head_client, self.pool, self.processes)
        logs = os.path.join(config.directory, "logs")
        self.logs = LogService(reactor, logs, self.output.origin, self.output.on_lines)
        self.tidying = Background(reactor, "tidying")
        """The thread that reads and removes small files of the session."""
        self.directory = DirectoryWatch(config.directory, config.ephemeral, reactor, self.log, self.end)
        self.devices = (
            [] if config.relay else detect_devices(manager.all("accelerator"), manager.label, self._plugin_fault)
        )
        self.store_bytes = choose_store_bytes(config.store_bytes)
        self.network = network
        self.place = network.place if network is not None else ""
        """The place where other machines reach this node, "" if they can't."""
        self.store = self._open_store()
        environments = WorkerEnvironments(
            config.directory, reactor, self.head_client.send, manager, self.pool.environments, config.spill_directory
        )
        self.surroundings = WorkerSurroundings(self.head_client, environments)
        self.forks = WorkerForks(self.pool, self.surroundings, self.logs, reactor)
        self.control = WorkerControl(self.head_client, self.pool, self.processes, reactor)
        self.memory = self._watch_memory()
        exits = WorkerExits(config, self.logs, self.memory, self.directory, self.tidying)
        self.workers = WorkerService(self.head_client, self.pool, self.forks, exits, reactor)
        self.leases = WorkerLeases(
            self.head_client, self.pool, self.workers, self.control, self.store.quotas, reactor.clock
        )
        self.node_state = self._describe_node()
        self.snapshot = NodeSnapshot(self.node_state, self.processes, self.pool, self.requests)
        self.housekeeping = Housekeeping(reactor, self.workers, self.control, self.events, self.node_state)
        self.report = NodeReport(self.node, self.processes, self.pool, self.store, self.memory)
        self.exchange: ObjectExchange | None = None
        self.relay: NetworkRelay | None = None
        if network is not None:
            self._link_nodes(network, relays=head_link is None or head_child is not None)
        self.ends = ProcessEnds(self._ended, self.head_client, self.processes, self.store, self.exchange)
        self._obey_head()
        self._answer_processes()
        self.head = self._join_head(make_local_head, head_link, head_child)
        self.listener = UnixListener(
            os.path.join(config.directory, "agent.sock"),
            config.token,
            reactor,
            self.processes.on_messages,
            self.processes.on_close,
            self._refused,
        )
        self._finishing = self._at_the_end_of_each_turn()
        if self.ending is not None:
            raise PluginError(self.ending)

    # -- the parts -------------------------------------------------------------------------------------------------

    def _describe_node(self) -> NodeState:
        config = self.config
        reached = config.advertised or config.listen
        host = parse_host_and_port(reached)[0] if reached and not config.relay else "127.0.0.1"
        total = {} if config.relay else total_resources(config.resources, self.devices, host, self.store_bytes)
        return NodeState(self.head_client, config, total, self.devices, self.place, self.reactor.clock)

    def _watch_memory(self) -> MemoryWatch:
        config = self.config
        settings = MemorySettings(self.node.hex()[:8], config.memory_threshold, config.memory_quotas)
        guard = open_guard(self.manager, settings, self._plugin_fault)
        template_pid, store_used = (lambda: self.forks.template_pid), self.store.bytes_used
        memory = NodeMemory(MemoryReadings(), config.memory_limit, template_pid, store_used)
        return MemoryWatch(settings, guard, memory, GuardedWorkers(self.pool, self.control), self.reactor)

    def _link_nodes(self, network: NodeNetwork, relays: bool) -> None:
        from kernel_processes.node.object_exchange import ObjectExchange  # A session of one machine does not need it.

        send, here = self.processes.send, self.processes.connections.__contains__
        links = network.link(self.store, send)
        self.exchange = ObjectExchange(self.place, self.store, links, send, here)
        if relays:
            self.relay = network.open_relay()

    def _open_store(self) -> StoreService:
        config, place = self.config, self.config.spill_directory
        store = self.manager.make("object_store")
        opened = open_server(store, self.manager.label(store), self.store_bytes, config.store_directory, self._broken)
        spill = self.manager.make("spill_target", place or os.path.join(config.directory, "spill"))
        directory = getattr(spill, "directory", "")
        self._describe_session(directory)
        server = OverflowServer(opened, os.path.join(directory or os.path.join(config.directory, "spill"), "overflow"))
        disk = StoreDisk(server, spill, self.reactor, self._warn)
        return StoreService(server, disk, StoreClients(self.processes, self._ended), self.events.note, self.reactor)

    def _plugin_fault(self, text: str) -> None:
        """Report a plugin's fault on this node to every program of the session, including those that join later."""
        self.head_client.send(packed(head_messages.PluginFault(text=text)))

    def _broken(self, reason: str) -> None:
        """End the node, because a part that it needs has failed."""
        self.log.error("the node ends", reason=reason)
        if self.head_client.linked:
            self.end(reason)
        else:  # The agent is not complete yet.
            self.ending = self.ending or reason

    def _warn(self, text: str) -> None:
        """Show a line to every program of the session."""
        self.log.warning(text)
        self.output.announce(text)

    def _describe_session(self, spill_directory: str) -> None:
        """Write the node's description to disk, for command lines and for cleaning up after a crash."""
        config = self.config
        head = place_of(config.head) if is_tcp(config.head) else ""
        ways = self.place, config.tls, head, config.relay, config.network
        sessions.describe(config.directory, os.getpid(), not config.ephemeral, spill_directory, *ways)

    def _join_head(
        self, make_local_head: MakeLocalHead, head_link: RemoteHeadLink | None, child: HeadChild | None
    ) -> AgentHead:
        """Join the head to which `head_link` leads; without one, make the head in this process."""
        config, reactor, network, obey = self.config, self.reactor, self.network, self.head_client.handle
        head: AgentHead
        if head_link is None:
            head = make_local_head(config, reactor, self.manager, network, obey, self.stop)
        else:
            snapshot, lost = self.snapshot.messages, self._head_is_lost
            head = RemoteHead(config, reactor, network, head_link, child, obey, snapshot, lost, self.stop)
            if child is None:  # A stop request that comes here means this node alone.
                self.processes.methods["stop"] = lambda connection: self.end("it was asked to stop")
        self.head_link = head.head_link
        self.events.wanted = head.observed
        self.requests.watch = head.durable
        head.join(self.node_state.description())
        self.head_client.link(head.head_link.send)
        return head

    def attach_template(self, template: TemplateLink) -> None:
        """Use a template that is starting, and send it the session's settings."""
        self.forks.template = template
        template.load(
            {
                "catalog": self.manager.catalog(),
                "node": self.node,
                "directory": self.config.directory,
                "token": self.config.token,
                "gateway": self.place,
                "tls": self.config.tls,
                "network": self.config.network,
                "agent": os.getpid(),
            }
        )

    # -- life ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until the session ends."""
        self.housekeeping.begin()
        self.directory.begin()
        self.memory.start()
        self.head.start()
        while self.ending is None:
            self.turn(60.0)
        self.shut_down()

    def turn(self, seconds: float) -> None:
        """Run one turn of the loop, which may wait up to `seconds`. Errors are logged, and the session goes on."""
        try:
            self.reactor.poll(seconds)
            for finish in self._finishing:
                finish()
        except Exception:
            self.log.exception("something failed in the node agent")

    def _at_the_end_of_each_turn(self) -> list[Callable[[], object]]:
        """Return what is done then, in this order: what one leaves behind, the next ones carry away."""
        finishing = [self.store.finish_disk_work, self.head_link.exchange, self.processes.flush, *self.head.finishing]
        return [*finishing, self.exchange.flush] if self.exchange is not None else finishing

    def end_with(self, starter: int) -> None:
        """End the session at the end of a pipe whose other end the program that started it holds."""

        def ended(events: int) -> None:
            self.reactor.unregister(starter)
            self.end(STARTER_ENDED)

        self.reactor.register(starter, ended)

    def end(self, reason: str) -> None:
        """End the session, or leave it if the head belongs to another node."""
        self.head.end(reason)

    def _head_is_lost(self, reason: str) -> None:
        if self.ending is None:
            self.log.error("the session ends", reason=reason)
        self.stop(reason)

    def stop(self, reason: str) -> None:
        """Stop serving, because the session is over."""
        self.ending = self.ending or reason
        self.workers.session_ends(self.ending)
        self.reactor.wake()

    def _refused(self, reason: str) -> None:
        self.log.warning("connection refused", reason=reason)

    def shut_down(self) -> None:
        """End everything that was started, in an order that loses no output or event."""
        reason = self.ending or ""
        self.log.debug("the session ends", reason=reason)
        self.head.stop_services(self.turn)
        seconds = GRACE_SECONDS if self.events.wanted else UNOBSERVED_SECONDS
        spared = frozenset([self.forks.template_pid, self.head.pid])
        clock = self.reactor.clock
        end_processes(self.pool, self.processes, self.logs, reason, seconds, clock, self.turn, spared)
        self.listener.close()
        if self.forks.template is not None:
            self.forks.template.close()
        end_descendants(os.getpid(), frozenset([self.head.pid]))
        if self.exchange is not None:
            self.exchange.close()
        self.store.close()
        self.surroundings.close()
        self.tidying.close(TIDY_SECONDS)
        self.directory.close()
        self.logs.close()
        self.head.close(f"it ended: {reason}")
        if self.relay is not None:
            self.relay.close()
        if self.network is not None:
            self.network.close()
        if self.config.ephemeral:
            sessions.remove(self.config.directory)
        else:
            sessions.end(self.config.directory, reason)

    # -- what the head says ----------------------------------------------------------------------------------------

    def _obey_head(self) -> None:
        on, methods = self.head_client.on, self.head_client.methods
        on(head_messages.JobEnded, lambda said: self._job_ended(said.job))
        on(head_messages.EndNode, lambda said: self.stop(said.reason))
        on(head_messages.NodeReachable, self._node_reachable)
        methods["drain_output"] = self._drain_output
        methods["report"] = lambda then, objects: then(self.report.make(objects))
        methods["needed_elsewhere"] = lambda then: then(self.report.needed_elsewhere())
        if self.exchange is not None:
            copy = self.exchange.copy
            methods["copy"] = lambda then, rows, place: copy(rows, place, then)

    def _job_ended(self, job: JobId) -> None:
        self.surroundings.job_ended(job)
        self.control.end_all_of(job, "its program ended")

    def _node_reachable(self, said: head_messages.NodeReachable) -> None:
        if self.relay is not None:
            self.relay.member(said.place, said.there)

    def _drain_output(self, then: Callable[[object], None]) -> None:
        self.logs.drain()
        then(True)

    # -- what processes say ----------------------------------------------------------------------------------------

    def _answer_processes(self) -> None:
        self.processes.methods |= {
            "register": self._register,
            "explain_storage": lambda connection, object: (self.exchange or self.store).explain(object),
        }
        handlers = self.processes.handlers
        handlers |= self.store.handlers | self._relay.handlers
        handlers |= {
            ATTACH_OPERATION: self._on_attach,
            op.BLOCKED: lambda connection, message: self.leases.on_blocked(connection, True),
            op.UNBLOCKED: lambda connection, message: self.leases.on_blocked(connection, False, message[1]),
        }
        if self.exchange is not None:
            handlers |= self.exchange.handlers

    def _joined(self, peer: Peer) -> None:
        self.head_client.send(self.snapshot.introduction(peer))

    def _register(self, connection: Connection) -> dict[str, Any]:
        peer: Peer = connection.info
        if peer.role == "worker":
            self.leases.worker_joined(connection)
            return {"observed": self.events.wanted}
        job, said = JobId(peer.details.get("job", b"")), peer.details
        self.store.quotas.limit(peer.id, said.get("store_bytes", 0), "its driver_object_store_memory")
        self.surroundings.driver_joined(job, said)
        if said.get("prestart"):
            self.workers.carry_out(self.pool.prestart((job, "")))
        return {"node": self.node, "catalog": pickle.dumps(self.manager.catalog())}

    def _left(self, connection: Connection) -> None:
        peer: Peer = connection.info
        self.requests.forget(peer.id)
        self.head_client.send(packed(head_messages.ProcessLeft(process=peer.id)))
        if peer.role == "worker":
            self.workers.left(peer)
        else:
            self.output.forget(connection)
        self.ends.note(peer.id)

    def _on_attach(self, connection: Connection, message: Message) -> None:
        connection.on_close = lambda connection, reason: None
        self.store.attach(connection)

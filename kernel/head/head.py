"""The head: one brain for all nodes. It ties the parts of the control service together and decides nothing itself.

Nodes talk to it over links (`kernel.protocol.head_messages`); what their processes ask arrives here as messages of a
`Caller`.
"""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from kernel.head import queries
from kernel.head.actor_service import ActorService
from kernel.head.archives import Archives
from kernel.head.breakpoint_table import BreakpointTable
from kernel.head.config import HeadConfig
from kernel.head.drain_service import DrainService
from kernel.head.environments import Environments
from kernel.head.failure_table import FailureTable
from kernel.head.group_service import GroupService
from kernel.head.head_service_host import HeadServiceHost
from kernel.head.job_table import DETACHED, JobTable
from kernel.head.journal import Journal
from kernel.head.lease_requests import LeaseRequests
from kernel.head.lease_service import LeaseService
from kernel.head.metadata_guard import guarded
from kernel.head.nodes import Caller, Node
from kernel.head.observation import Observation
from kernel.head.process_service import ProcessService
from kernel.head.recovery import Recovery
from kernel.head.remote_drivers import RemoteDrivers
from kernel.logs import Logger
from kernel.plugin_faults import told
from kernel.plugins import PluginManager
from kernel.protocol import head_messages
from kernel.protocol import process_messages as op
from kernel.protocol.named_messages import Kind, number_of, packed
from kernel.protocol.pending_requests import PendingRequests
from kernel.transport.background import Background
from kernel.transport.connection import Message
from kernel.transport.reactor import Reactor
from kernel_spec import observers
from kernel_spec.errors import MetadataError, OptionError
from kernel_spec.ids import JobId, NodeId, ProcessId
from kernel_spec.metadata import LastingMetadataStore
from kernel_spec.services import HeadInfo

TICK_SECONDS = 0.1
FAULTS_KEPT = 20
CLOSE_SECONDS = 5.0
"""How long the end waits for a piece of an archive that is being read or written."""


class Head:
    """The head. The parts fill `handlers` and `methods`, for messages and calls of processes, and `words`.

    `on_end(reason)` is called once the session is to end.
    """

    def __init__(
        self, config: HeadConfig, reactor: Reactor, manager: PluginManager, on_end: Callable[[str], None]
    ) -> None:
        self.config = config
        self.reactor = reactor
        self.manager = manager
        self.log = Logger("kernel.head")
        self.started = time.time()
        self.ending: str | None = None
        self.nodes: dict[NodeId, Node] = {}
        self.fallen: dict[NodeId, str] = {}
        """Why nodes were declared dead by the heads before this one."""
        self.callers: dict[ProcessId, Caller] = {}
        self.handlers: dict[int, Callable[[Caller, Message], None]] = {}
        self.methods: dict[str, Callable[..., Any]] = {}
        self._on_end = on_end
        self._pending: PendingRequests[NodeId] = PendingRequests(int.from_bytes(os.urandom(4), "little"))
        self.environments = Environments()
        self.archives = Archives(config.directory)
        self.background = Background(reactor, "archives")
        """Where the archives are read and written."""
        self.jobs = JobTable()
        self._faults: deque[str] = deque(maxlen=FAULTS_KEPT)
        """What plugins have done wrong: programs that join later are told as well."""
        self.observation = Observation(manager.all("observer"), reactor.clock)
        self.observation.on_active = self._observe_nodes
        self.observation.on_fault = lambda observer, error: self.plugin_fault(
            told(manager.label(observer), error, "it is asked no more")
        )
        manager.choose("node_provider")  # what asks for machines makes it; a name that there is not is refused here
        metadata = manager.make("metadata_store", config.metadata_directory or config.directory)
        self.metadata = guarded(metadata, manager.label(metadata))
        if isinstance(self.metadata, LastingMetadataStore):
            me = f"the head of {config.address}, process {os.getpid()} on {socket.gethostname()}"
            self.metadata.claim(me.encode())
        self.journal = Journal(self.metadata)
        self.environments.on_new = self.journal.environment
        self.words: dict[int, Callable[..., None]] = {}
        self.on(head_messages.AskAnswered, lambda node, said: self._pending.answered(said.number, said.value))
        self.on(head_messages.LifeCycleEvents, self._events)
        self.on(head_messages.WorkerCalls, lambda node, said: self.observation.note_calls(said.worker, said.calls))
        self.on(head_messages.LinesWritten, self._lines)
        self.on(head_messages.WantPackage, self._want_package)
        self.on(head_messages.PluginFault, lambda node, said: self.plugin_fault(said.text))
        self.on(head_messages.EndSession, lambda node, said: self.end(said.reason))
        self.processes = ProcessService(self)
        self.leases = LeaseService(self)
        self.lease_manager = self.leases.lease_manager
        self.requests = LeaseRequests(self)
        self.actors = ActorService(self)
        self.groups = GroupService(self)
        self.recovery = Recovery(self)
        names = list(config.head_services) or None
        self.services = HeadServiceHost(manager.make_many("head_service", names), manager.options_of, self.plugin_fault)
        queries.install(self)
        self.failures = FailureTable(self)
        self.breakpoints = BreakpointTable(self)
        self.drains = DrainService(self)
        self.remote_drivers = RemoteDrivers(self)

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to count time, and start the head's services."""
        self.reactor.call_later(TICK_SECONDS, self._tick)
        self.services.start(HeadInfo(self.config.address, self.config.directory, {}))

    def end(self, reason: str) -> None:
        """End the session."""
        if self.ending is None:
            self.ending = reason
            for node in self.living_nodes():
                node.send(packed(head_messages.EndNode(reason=reason)))
            self._on_end(reason)

    def close(self) -> None:
        """Let go of the metadata; if the session has ended, tell the observers, and remove its metadata.

        The nodes have left before, or go on without this head until there is another.
        """
        if self.ending is not None:
            for node in self.working_nodes():
                self.observe(observers.NODE, observers.DEAD, node.id, {"cause": self.ending})
        self.observation.deliver()
        self.background.close(CLOSE_SECONDS)
        over = self.ending is not None and isinstance(self.metadata, LastingMetadataStore)
        try:
            self.metadata.discard() if over else self.metadata.close()
        except MetadataError as error:
            what = "removed" if over else "closed"
            self.log.warning(f"the session's metadata could not be {what}", reason=str(error))

    def _tick(self) -> None:
        self.reactor.call_later(TICK_SECONDS, self._tick)
        if self.journal.behind:
            self.journal.catch_up()
        if self.lease_manager.waiting or self.groups.table.waiting:
            self.lease_manager.tick()

    # -- nodes -----------------------------------------------------------------------------------------------------

    def living_nodes(self) -> list[Node]:
        """Return the nodes that are there, remote drivers' among them."""
        return [node for node in self.nodes.values() if node.alive]

    def working_nodes(self) -> list[Node]:
        """Return the nodes that are there and on which something may run."""
        return [node for node in self.living_nodes() if not node.client]

    def node_named(self, id: str) -> Node:
        """Return the living node with this id (hexadecimal). Raises OptionError when there is none."""
        for node in self.working_nodes():
            if node.id.hex() == id:
                return node
        there = ", ".join(node.id.hex() for node in self.working_nodes())
        raise OptionError(f"there is no living node {id!r}; the living nodes are {there}")

    def why_fallen(self, id: NodeId) -> str:
        """Return why a node was declared dead, by this head or one before it; nothing if it was not."""
        node = self.nodes.get(id)
        if node is not None and not node.alive:
            return node.cause
        return self.fallen.get(id) or self.remote_drivers.fallen.get(id, "")

    def add_node(self, node: Node) -> None:
        """A node joined."""
        self.nodes[node.id] = node
        self.remote_drivers.node_added(node)
        node.send(packed(head_messages.Observe(wanted=self.observation.active)))
        if not node.client:
            self.journal.node(node.id)
            self.journal.address(node.id, node.address)
            self.observe(observers.NODE, observers.ALIVE, node.id, {"resources": node.total})
            self.lease_manager.add_node(node.id, node.total, dict(node.labels), node.devices)

    def remove_node(self, node: Node, cause: str) -> None:
        """A node is gone, with all of its processes."""
        if not node.alive:
            return
        node.alive, node.cause = False, cause
        self.remote_drivers.node_removed(node)
        if not node.client:
            self.journal.node(node.id, cause)
            self.observe(observers.NODE, observers.DEAD, node.id, {"cause": cause})
        if self.ending is None:
            what = "a remote driver is gone" if node.client else "a node is gone"
            self.log.warning(what, node=node.id.hex(), host=node.host, cause=cause)
        self._pending.lost(node.id)
        lost = [caller.id for caller in self.callers.values() if caller.node is node]
        self.groups.node_lost(node, cause)
        workers = set(lost).union([] if node.client else self.lease_manager.remove_node(node.id))
        for other in self.living_nodes():
            other.send(packed(head_messages.ProcessesGone(processes=lost, place=node.address)))
        for id in lost:
            self.processes.forget(id)
        for id in workers:
            self.lease_manager.worker_died(id, cause, op.LOST)
            self.actors.worker_died(id, cause)
        self.requests.refuse_the_hopeless()

    def on(self, kind: type[Kind], handler: Callable[[Node, Kind], None]) -> None:
        """Have `handler(node, message)` called for each message of this kind that a node's agent sends."""
        self.words[number_of(kind)] = lambda node, *fields: handler(node, kind(*fields))

    def handle(self, node: Node, message: Message) -> None:
        """Take one message from a node's agent."""
        try:
            self.words[message[0]](node, *message[1:])
        except Exception:
            self.log.exception("a message of a node could not be handled", word=message[0], node=node.id.hex())

    def ask(self, caller: Caller, method: str, then: Callable[[Any], None], *arguments: Any) -> None:
        """Ask a process something; `then(answer)` is called from the loop, with None when it can't answer."""
        number = self._pending.begin(caller.node.id, then)
        caller.node.send(
            packed(head_messages.AskProcess(number=number, process=caller.id, method=method, arguments=arguments))
        )

    def ask_node(self, node: Node, method: str, then: Callable[[Any], None], *arguments: Any) -> None:
        """Ask an agent something; `then(answer)` is called from the loop, with None when it can't answer."""
        node.send(
            packed(head_messages.AskNode(number=self._pending.begin(node.id, then), method=method, arguments=arguments))
        )

    # -- what is shown ---------------------------------------------------------------------------------------------

    def observe(self, kind: str, state: str, id: bytes, detail: dict[str, Any]) -> None:
        """Note a life cycle event."""
        self.observation.note(kind, state, id, time.time(), detail)

    def _observe_nodes(self, wanted: bool) -> None:
        """Have the nodes begin, or stop, to tell what happens on them."""
        for node in self.living_nodes():
            node.send(packed(head_messages.Observe(wanted=wanted)))

    def plugin_fault(self, text: str) -> None:
        """Tell every program, also those that join later, and the log, what a plugin did wrong."""
        self.log.warning(text)
        self._faults.append(text)
        for node in self.nodes_of_drivers(JobId(DETACHED)):
            self._show(node, JobId(DETACHED), text)

    def tell_faults(self, driver: Caller) -> None:
        """Tell a program that has just joined what plugins did wrong before."""
        for text in self._faults:
            self._show(driver.node, driver.job, text)

    @staticmethod
    def _show(node: Node, job: JobId, text: str) -> None:
        node.send(
            packed(
                head_messages.ShowLines(
                    job=job, pid=os.getpid(), name="kernel", stream="stderr", lines=text.splitlines()
                )
            )
        )

    def _events(self, node: Node, said: head_messages.LifeCycleEvents) -> None:
        for event in said.events:
            self.observation.note(*event)

    def _lines(self, node: Node, said: head_messages.LinesWritten) -> None:
        """Pass output on to the nodes of the drivers that it concerns: every one, that of detached actors."""
        shown = packed(head_messages.ShowLines(*said))
        for other in self.nodes_of_drivers(said.job):
            if other is not node:
                other.send(shown)

    def nodes_of_drivers(self, job: JobId) -> list[Node]:
        """Return the nodes of the drivers that `job` concerns: all drivers, if it is one of detached actors."""
        detached = job.startswith(DETACHED)
        drivers = [one for one in self.callers.values() if one.role == "driver" and (detached or one.job == job)]
        return list({id(driver.node): driver.node for driver in drivers}.values())

    def _want_package(self, node: Node, said: head_messages.WantPackage) -> None:
        def read(found: tuple[int, bytes] | Exception) -> None:
            total, piece = (0, b"") if isinstance(found, Exception) else found
            node.send(packed(head_messages.PackagePiece(said.digest, said.offset, total=total, piece=piece)))

        self.background.do(lambda: self.archives.piece(said.digest, said.offset), read)

"""The head: one brain for all nodes. It ties the parts of the control service together and decides nothing itself.

Nodes talk to it over links (`kernel.control.words`); what their processes ask arrives here as messages of a `Caller`.
"""

from __future__ import annotations

import os
import pickle
import socket
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kernel.control import queries, words
from kernel.control.actor_service import ActorService
from kernel.control.archives import Archives
from kernel.control.config import HeadConfig
from kernel.control.drain_service import DrainService
from kernel.control.environments import Environments
from kernel.control.group_service import GroupService
from kernel.control.head_service_host import HeadServiceHost
from kernel.control.job_table import DETACHED, JobTable
from kernel.control.journal import Journal
from kernel.control.later import Later
from kernel.control.lease_desk import LeaseDesk, LeaseRecord, grant_message
from kernel.control.lease_requests import LeaseRequests
from kernel.control.nodes import Caller, Node
from kernel.control.observation import Observation
from kernel.control.remote_drivers import RemoteDrivers
from kernel.logs import Logger
from kernel.plugins import PluginManager
from kernel.runtime import operations as op
from kernel.runtime.memory_faults import FAULTS
from kernel.transport.connection import Message
from kernel.transport.reactor import Reactor
from kernel_spec import observers
from kernel_spec.errors import InternalError, KernelError, MetadataError, OptionError, ProtocolError
from kernel_spec.ids import JobId, LeaseId, NodeId, ProcessId
from kernel_spec.metadata import LastingMetadataStore
from kernel_spec.resources import MEMORY, OBJECT_STORE_MEMORY, from_units
from kernel_spec.services import HeadInfo

TICK_SECONDS = 0.1
GRACE_SECONDS = 2.0
"""How long the resources of a broken lease stay taken, unless its worker is known to be gone sooner."""
RESTORE_SECONDS = 10.0
"""How long a head that was started again waits for the nodes there were."""
STARTER_ENDED = "the program that started it ended"


class Head:
    """The control service. `handlers` and `methods`, for messages and calls of processes, are filled by the parts.

    `on_end(reason)` is called once the session is to end.
    """

    def __init__(
        self, config: HeadConfig, reactor: Reactor, manager: PluginManager, on_end: Callable[[str], None]
    ) -> None:
        self.config = config
        self.reactor = reactor
        self.manager = manager
        self.log = Logger("kernel.control")
        self.started = time.time()
        self.ending: str | None = None
        self.nodes: dict[NodeId, Node] = {}
        self.callers: dict[ProcessId, Caller] = {}
        self.handlers: dict[int, Callable[[Caller, Message], None]] = {}
        self.methods: dict[str, Callable[..., Any]] = {}
        self._on_end = on_end
        self._asked: dict[int, tuple[NodeId, Callable[[Any], None]]] = {}
        self._question = 0
        self._missing: set[NodeId] = set()
        self.fallen: dict[NodeId, str] = {}
        self.restoring = False
        self.environments = Environments()
        self.archives = Archives(config.directory)
        self.jobs = JobTable()
        self.observation = Observation(manager.all("observer"), reactor.clock)
        self.observation.on_active = self._observe_nodes
        self.metadata = manager.choose("metadata_store")(config.metadata_directory or config.directory)
        if isinstance(self.metadata, LastingMetadataStore):
            me = f"the head of {config.address}, process {os.getpid()} on {socket.gethostname()}"
            self.metadata.claim(me.encode())
        self.journal = Journal(self.metadata)
        self.environments.on_new = self.journal.environment
        self.desk = LeaseDesk(
            manager.choose("scheduler")(),
            reactor.clock,
            self._find_worker,
            self._drop_worker,
            self.kill_worker,
            self.end,
        )
        self.handlers |= {
            op.CALL: self._on_call,
            op.CANCEL_LEASE: lambda caller, message: self.desk.cancel(message[1]),
            op.RETURN_LEASE: lambda caller, message: self._on_return_lease(message[1], message[2]),
        }
        self.requests = LeaseRequests(self)
        self.actors = ActorService(self)
        self.groups = GroupService(self)
        names = list(config.head_services) or None
        self.services = HeadServiceHost(
            [make() for make in manager.choose_many("head_service", names)], manager.options_of
        )
        queries.install(self)
        self.drains = DrainService(self)
        self.remote_drivers = RemoteDrivers(self)
        self.methods["kill_worker"] = lambda caller, worker, reason: self.kill_worker(worker, reason)
        self._words: dict[int, Callable[..., None]] = {
            words.PROCESS_JOINED: self._process_joined,
            words.PROCESS_LEFT: self._process_left,
            words.FROM_PROCESS: self._from_process,
            words.WORKER_FOUND: self._worker_found,
            words.LEASE_UNSERVED: self._lease_unserved,
            words.WORKER_DIED: self._worker_died,
            words.LEASE_BLOCKED: lambda node, lease, blocked: self.desk.block(lease, blocked),
            words.ANSWER: self._answered,
            words.EVENTS: self._events,
            words.CALLS: lambda node, worker, calls: self.observation.note_calls(worker, calls),
            words.LINES: self._lines,
            words.WANT_PACKAGE: self._want_package,
            words.LEASE_HELD: self._lease_held,
            words.ALL_TOLD: self._all_told,
            words.DRAINING: self.drains.begin,
            words.END_SESSION: lambda node, reason: self.end(reason),
        }

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to count time, and start the head's services."""
        self.reactor.call_later(TICK_SECONDS, self._tick)
        self.services.start(HeadInfo(self.config.address, self.config.directory, {}))

    def restore(self, seconds: float = RESTORE_SECONDS) -> None:
        """Carry on after the death of a head: wait for its nodes, `seconds` at most, then go on without the rest."""
        for description in self.journal.environments():
            self.environments.key_of(description)
        for job in self.journal.jobs():
            self.jobs.jobs[job.id] = job
        for record in self.journal.actors():
            self.actors.table.restore(record)
        for group in self.journal.groups():
            self.groups.table.restore(group)
        self._missing = {id for id, cause in self.journal.nodes().items() if not cause} | self.remote_drivers.restore()
        self.fallen = {id: cause for id, cause in self.journal.nodes().items() if cause}
        self.restoring = True
        self.desk.hold()
        self.reactor.call_later(seconds, self._resume)

    def _lease_held(self, node: Node, held: bytes, worker: ProcessId, blocked: bool) -> None:
        request, grant = pickle.loads(held)
        self.desk.held(grant, request, worker, blocked)

    def _all_told(self, node: Node) -> None:
        self._missing.discard(node.id)
        if not self._missing:
            self._resume()

    def _resume(self) -> None:
        if not self.restoring:
            return
        self.restoring = False
        for id in self._missing - self.remote_drivers.missing(self._missing):
            self.fallen[id] = "it did not come back when the head was started again"
            self.journal.node(id, self.fallen[id])
        self.groups.resume()
        self.desk.adopt(self.callers, self.actors.table.leases)
        self.actors.resume()
        for job in list(self.jobs.jobs.values()):
            if job.is_program and not job.ended and job.driver not in self.callers:
                self._end_job(job.driver)
        self.desk.go_on()
        self.requests.refuse_the_hopeless()
        for node in self.living_nodes():
            self.ask_node(node, "report", partial(self._forget_owners, node), True)
        self.log.warning("the session goes on with another head", nodes=len(self.nodes), lost_nodes=len(self._missing))

    def _forget_owners(self, node: Node, report: Mapping[str, Any] | None) -> None:
        """Have a node free what is owned by processes that were lost while there was no head."""
        gone = {row[1] for row in report["stored"]} - self.callers.keys() if report is not None else ()
        if gone:
            node.send((words.PROCESSES_GONE, list(gone), ""))

    def why_fallen(self, id: NodeId) -> str:
        """Return why a node was declared dead, by this head or one before it; nothing if it was not."""
        node = self.nodes.get(id)
        if node is not None and not node.alive:
            return node.cause
        return self.fallen.get(id) or self.remote_drivers.fallen.get(id, "")

    def end(self, reason: str) -> None:
        """End the session."""
        if self.ending is None:
            self.ending = reason
            for node in self.living_nodes():
                node.send((words.END, reason))
            self._on_end(reason)

    def close(self) -> None:
        """Tell the observers, and remove the session's metadata: it is over. The nodes have left before."""
        for node in self.working_nodes():
            self.observe(observers.NODE, observers.DEAD, node.id, {"cause": self.ending})
        self.observation.deliver()
        try:
            self.metadata.discard() if isinstance(self.metadata, LastingMetadataStore) else self.metadata.close()
        except MetadataError as error:
            self.log.warning("the session's metadata could not be removed", reason=str(error))

    def _tick(self) -> None:
        self.reactor.call_later(TICK_SECONDS, self._tick)
        if self.desk.waiting or self.groups.table.waiting:
            self.desk.tick()

    # -- nodes -----------------------------------------------------------------------------------------------------

    def living_nodes(self) -> list[Node]:
        """Return the nodes that are there, remote drivers' among them."""
        return [node for node in self.nodes.values() if node.alive]

    def working_nodes(self) -> list[Node]:
        """Return the nodes that are there and on which something may run."""
        return [node for node in self.living_nodes() if not node.client]

    def add_node(self, node: Node) -> None:
        """A node joined."""
        self.nodes[node.id] = node
        self.remote_drivers.node_added(node)
        node.send((words.OBSERVE, self.observation.active))
        if not node.client:
            self.journal.node(node.id)
            self.observe(observers.NODE, observers.ALIVE, node.id, {"resources": node.total})
            self.desk.add_node(node.id, node.total, dict(node.labels), node.devices)

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
        for number in [number for number, asked in self._asked.items() if asked[0] == node.id]:
            self._answered(node, number, None)
        lost = [caller.id for caller in self.callers.values() if caller.node is node]
        self.groups.node_lost(node, cause)
        workers = set(lost).union([] if node.client else self.desk.remove_node(node.id))
        for other in self.living_nodes():
            other.send((words.PROCESSES_GONE, lost, node.address))
        for id in lost:
            self._forget_process(id)
        for id in workers:
            self.desk.worker_died(id, cause)
            self.actors.worker_died(id, cause)
        self.requests.refuse_the_hopeless()

    def handle(self, node: Node, message: Message) -> None:
        """Take one message from a node's agent."""
        try:
            self._words[message[0]](node, *message[1:])
        except Exception:
            self.log.exception("a message of a node could not be handled", word=message[0], node=node.id.hex())

    # -- processes -------------------------------------------------------------------------------------------------

    def _process_joined(
        self,
        node: Node,
        id: ProcessId,
        role: str,
        pid: int,
        address: str,
        job: JobId,
        environment: str,
        details: Mapping[str, Any],
    ) -> None:
        if id in self.callers:
            return  # told once more, after the death of a head
        caller = self.callers[id] = Caller(id, role, pid, address, job, environment, details, node)
        if role == "driver" and job not in self.jobs.jobs:
            self.journal.job(self.jobs.add(caller, time.time()))
        elif role == "worker":
            self.observe(observers.WORKER, observers.ALIVE, id, {"pid": pid})

    def _process_left(self, node: Node, id: ProcessId) -> None:
        for other in self.living_nodes():
            if other is not node:
                other.send((words.PROCESSES_GONE, [id], ""))
        self._forget_process(id)

    def _forget_process(self, id: ProcessId) -> None:
        caller = self.callers.pop(id, None)
        if caller is None:
            return
        caller.closed = True
        self.desk.holder_left(caller)
        self.actors.owner_died(caller)
        self.groups.process_left(caller)
        if caller.role == "driver":
            self._end_job(id)
            if self.config.ephemeral and caller.details.get("starter"):
                self.end(STARTER_ENDED)

    def _end_job(self, driver: ProcessId) -> None:
        job = self.jobs.end(driver, time.time())
        if job is None:
            return
        for node in self.living_nodes():
            node.send((words.JOB_ENDED, job.id))
        self.groups.job_ended(job.id)
        working = {caller.job for caller in self.callers.values() if caller.role == "worker"}
        self.journal.job(job)
        for id in self.jobs.forget(self.actors.table.living_jobs() | working):
            self.journal.forget_job(id)

    def _from_process(self, node: Node, id: ProcessId, message: Message) -> None:
        caller = self.callers.get(id)
        handler = self.handlers.get(message[0])
        if caller is None:
            return
        if handler is None:
            raise ProtocolError(f"process {id.hex()} sent {message!r:.100}, which the head does not know")
        handler(caller, message)

    def _on_call(self, caller: Caller, message: Message) -> None:
        _, number, name, arguments = message
        method = self.methods.get(name)
        try:
            if method is None:
                raise ProtocolError(f"neither the node agent nor the head answers {name!r}")
            value = method(caller, *arguments)
        except KernelError as error:
            caller.send((op.REPLY_ERROR, number, pickle.dumps(error)))
            return
        except Exception as error:
            self.log.exception("a request failed", method=name)
            text = f"{name} failed in the head: {type(error).__name__}: {error}"
            caller.send((op.REPLY_ERROR, number, pickle.dumps(InternalError(text))))
            return
        if isinstance(value, Later):
            value.when_done(lambda result: self._reply(caller, number, result))
        else:
            caller.send((op.REPLY, number, value))

    def _reply(self, caller: Caller, number: int, value: Any) -> None:
        if isinstance(value, KernelError):
            caller.send((op.REPLY_ERROR, number, pickle.dumps(value)))
        else:
            caller.send((op.REPLY, number, value))

    # -- questions to processes and nodes --------------------------------------------------------------------------

    def ask(self, caller: Caller, method: str, then: Callable[[Any], None], *arguments: Any) -> None:
        """Ask a process something; `then(answer)` is called from the loop, with None when it can't answer."""
        caller.node.send((words.ASK_PROCESS, self._expect(caller.node, then), caller.id, method, arguments))

    def ask_node(self, node: Node, method: str, then: Callable[[Any], None], *arguments: Any) -> None:
        """Ask an agent something; `then(answer)` is called from the loop, with None when it can't answer."""
        node.send((words.ASK_NODE, self._expect(node, then), method, arguments))

    def _expect(self, node: Node, then: Callable[[Any], None]) -> int:
        self._question += 1
        self._asked[self._question] = (node.id, then)
        return self._question

    def _answered(self, node: Node, number: int, value: Any) -> None:
        asked = self._asked.pop(number, None)
        if asked is not None:
            asked[1](value)

    # -- leases ----------------------------------------------------------------------------------------------------

    def _on_return_lease(self, id: LeaseId, broken: bool) -> None:
        """Take a lease back. What an unusable worker held (a device's memory, too) is free when its process is gone."""
        if broken:
            self.desk.drop_worker(id)
            self.reactor.call_later(GRACE_SECONDS, lambda: self.desk.release(id, broken=True))
        else:
            self.desk.release(id, broken=False)

    def _find_worker(self, lease: LeaseId, record: LeaseRecord) -> None:
        assert record.grant is not None
        request, node = record.request, self.nodes[record.grant.node]
        if request.job not in node.known:
            node.known.add(request.job)
            node.send((words.JOB, request.job, pickle.dumps(self.jobs.get(request.job).surroundings())))
        if request.environment and request.environment not in node.known:
            node.known.add(request.environment)
            description = pickle.dumps(self.environments.description(request.environment))
            node.send((words.ENVIRONMENT, request.environment, description))
        held = pickle.dumps((request, record.grant)) if self.journal.durable else b""
        reserved = (int(from_units(request.wanted.get(name, 0))) for name in (MEMORY, OBJECT_STORE_MEMORY))
        work = (request.name, request.requester, *reserved, request.preemptible)
        node.send((words.FIND_WORKER, lease, request.job, request.environment, work, held))

    def _drop_worker(self, lease: LeaseId, record: LeaseRecord, broken: bool) -> None:
        if record.grant is not None:
            holder_lives = record.holder is not None and not record.holder.closed
            self.nodes[record.grant.node].send((words.DROP_WORKER, lease, broken, holder_lives))

    def _worker_found(self, node: Node, lease: LeaseId, worker: ProcessId) -> None:
        record = self.desk.served(lease, worker)
        if record is None:
            return
        if record.holder is None:
            self.actors.lease_served(lease, record)
        else:  # one that is gone already can't be reached, which its holder will say
            caller = self.callers.get(worker)
            record.holder.send(grant_message(lease, record, caller.address if caller is not None else ""))

    def _lease_unserved(self, node: Node, lease: LeaseId, error: bytes) -> None:
        record = self.desk.leases.get(lease)
        if record is not None:
            self.requests.refuse(record.request, record.holder, pickle.loads(error))

    def _worker_died(self, node: Node, worker: ProcessId, pid: int, cause: str, fault: int) -> None:
        detail = {"pid": pid, "cause": cause, "fault": FAULTS.get(fault, "")}
        self.observe(observers.WORKER, observers.DEAD, worker, detail)
        self.desk.worker_died(worker, cause, fault)
        self.actors.worker_died(worker, cause, fault)

    def kill_worker(self, worker: ProcessId, reason: str) -> None:
        """End a worker at once."""
        found = self.callers.get(worker)
        if found is not None:
            found.node.send((words.KILL_WORKER, worker, reason))

    # -- what is shown ---------------------------------------------------------------------------------------------

    def observe(self, kind: str, state: str, id: bytes, detail: dict[str, Any]) -> None:
        """Note a life cycle event."""
        self.observation.note(kind, state, id, time.time(), detail)

    def _observe_nodes(self, wanted: bool) -> None:
        """Have the nodes begin, or stop, to tell what happens on them."""
        for node in self.living_nodes():
            node.send((words.OBSERVE, wanted))

    def _events(self, node: Node, events: list[tuple[str, str, bytes, float, dict[str, Any]]]) -> None:
        for event in events:
            self.observation.note(*event)

    def _lines(self, node: Node, job: JobId, pid: int, name: str, stream: str, lines: list[str]) -> None:
        """Pass output on to the nodes of the drivers that it concerns: every one, that of detached actors."""
        detached = job.startswith(DETACHED)
        concerned = {
            id(caller.node): caller.node
            for caller in self.callers.values()
            if caller.role == "driver" and caller.node is not node and (detached or caller.job == job)
        }
        for other in concerned.values():
            other.send((words.SHOW_LINES, job, pid, name, stream, lines))

    def _want_package(self, node: Node, digest: str, offset: int) -> None:
        node.send((words.PACKAGE, digest, offset, *self.archives.piece(digest, offset)))

    def node_named(self, id: str) -> Node:
        """Return the living node with this id (hexadecimal). Raises OptionError when there is none."""
        for node in self.working_nodes():
            if node.id.hex() == id:
                return node
        there = ", ".join(node.id.hex() for node in self.working_nodes())
        raise OptionError(f"there is no living node {id!r}; the living nodes are {there}")

"""The agent: one loop that ties the parts of a node together. It decides nothing itself."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kernel.logs import Logger
from kernel.node import queries
from kernel.node.actor_service import ActorService
from kernel.node.config import AgentConfig
from kernel.node.detection import choose_store_bytes, detect_devices, total_resources
from kernel.node.environments import Environments
from kernel.node.head_service_host import HeadServiceHost
from kernel.node.job_table import JobTable
from kernel.node.later import Later
from kernel.node.lease_desk import LeaseDesk
from kernel.node.log_feed import LogFeed
from kernel.node.log_service import LogService
from kernel.node.observation import Observation
from kernel.node.processes import end_descendants
from kernel.node.store_service import StoreService
from kernel.node.template_link import TemplateLink
from kernel.node.worker_service import GRACE_SECONDS, WorkerService
from kernel.plugins import PluginManager
from kernel.runtime import operations as op
from kernel.runtime.process import PYTHON, Peer
from kernel.transport.connection import ATTACH_OPERATION, Connection, Message, may_be_handled
from kernel.transport.listener import Listener
from kernel.transport.reactor import Reactor
from kernel_spec.errors import InternalError, KernelError, ProtocolError
from kernel_spec.ids import LeaseId, NodeId, ProcessId
from kernel_spec.services import HeadInfo

TICK_SECONDS = 0.1
OBSERVE_SECONDS = 1.0
IDLE_WORKER_SECONDS = 15.0
_INTRODUCTIONS = (op.HELLO, ATTACH_OPERATION)


class Agent:
    """One node. `handlers` and `methods` are filled by the parts."""

    def __init__(self, config: AgentConfig, reactor: Reactor, manager: PluginManager) -> None:
        self.config = config
        self.reactor = reactor
        self.manager = manager
        self.log = Logger("kernel.node")
        self.node = NodeId(config.node)
        self.started = time.time()
        self.handlers: dict[int, Callable[[Connection, Message], None]] = {}
        self.methods: dict[str, Callable[..., Any]] = {}
        self.connections: dict[ProcessId, Connection] = {}
        self.ending: str | None = None
        self._asked: dict[int, tuple[Connection, Callable[[Any], None]]] = {}
        self._question = 0
        accelerators = manager.all("accelerator")
        self.devices = detect_devices(accelerators)
        self.store_bytes = choose_store_bytes(config.store_bytes)
        self.total = total_resources(config.resources, self.devices, "127.0.0.1", self.store_bytes)
        self.environments = Environments(config.directory)
        self.workers = WorkerService(self)
        self.pool = self.workers.pool
        self.observation = Observation(manager.all("observer"), reactor.clock)
        self.jobs = JobTable()
        self.desk = LeaseDesk(manager.choose("scheduler")(), reactor.clock, self.workers.find, self.workers.drop)
        self.store = self._open_store()
        self.logs = LogService(reactor, os.path.join(config.directory, "logs"), self._origin, self._on_lines)
        self.log_feed = LogFeed()
        self.metadata = manager.choose("metadata_store")(config.directory)
        self.handlers |= self.store.handlers
        self.handlers |= {
            op.HELLO: self._on_hello,
            op.CALL: self._on_call,
            op.REPLY: self._on_reply,
            op.REPLY_ERROR: self._on_reply,
            ATTACH_OPERATION: self._on_attach,
            op.REQUEST_LEASE: self._on_request_lease,
            op.CANCEL_LEASE: lambda c, m: self.desk.cancel(m[1]),
            op.RETURN_LEASE: lambda c, m: self._on_return_lease(m[1], m[2]),
            op.BLOCKED: lambda c, m: self._on_blocked(c, True),
            op.UNBLOCKED: lambda c, m: self._on_blocked(c, False),
        }
        self.actors = ActorService(self)
        names = list(config.head_services) or None
        self.services = HeadServiceHost([make() for make in manager.choose_many("head_service", names)])
        queries.install(self)
        self.methods["register"] = self._register
        self.methods["kill_worker"] = self.workers.kill
        self.listener = Listener(
            os.path.join(config.directory, "agent.sock"),
            config.token,
            reactor,
            self._on_messages,
            self._on_close,
            lambda reason: self.log.warning("connection refused", reason=reason),
        )
        devices = tuple(self.devices) or ("GPU",)
        self.desk.add_node(self.node, self.total, config.labels, devices)

    def _open_store(self) -> StoreService:
        config = self.config
        server = self.manager.choose("object_store")().open_server(self.store_bytes, config.store_directory)
        spill = self.manager.choose("spill_target")(config.spill_directory or os.path.join(config.directory, "spill"))
        return StoreService(server, spill, self.reactor, self._send_to, self._broadcast, self.observe)

    # -- life ------------------------------------------------------------------------------------------------------

    def attach_template(self, template: TemplateLink) -> None:
        """Use a template that is starting, and tell it about the session."""
        self.workers.template = template
        template.load(
            {
                "catalog": self.manager.catalog(),
                "node": self.node,
                "directory": self.config.directory,
                "token": self.config.token,
                "ephemeral": self.config.ephemeral,
                "agent": os.getpid(),
            }
        )

    def run(self) -> None:
        """Serve until the session ends."""
        self.observe("node", "ALIVE", self.node, {"resources": self.total})
        self.reactor.call_later(TICK_SECONDS, self._tick)
        self.services.start(HeadInfo(self.config.directory, self.config.directory, self.config.plugin_options))
        while self.ending is None:
            self.reactor.poll(60.0)
            self.store.finish_disk_work()
            self.observation.deliver()
        self._shut_down()

    def end(self, reason: str) -> None:
        """End the session."""
        self.ending = self.ending or reason
        self.reactor.wake()

    def _shut_down(self) -> None:
        self.log.debug("the session ends", reason=self.ending)
        self.services.stop()
        for connection in self.connections.values():
            connection.send((op.EXIT, self.ending, False))
            connection.flush()
        self._wait_for_workers(0.5)
        template = self.workers.template.pid if self.workers.template is not None else 0
        end_descendants(os.getpid(), frozenset([template]))
        self.logs.drain()
        for connection in self.connections.values():
            connection.flush()
        for connection in list(self.connections.values()):
            connection.on_close = lambda c, reason: None
            connection.close("the session ended")
        self.listener.close()
        if self.workers.template is not None:
            self.workers.template.close()
        end_descendants(os.getpid())
        self.store.close()
        self.logs.close()
        self.metadata.close()
        if self.config.ephemeral:
            shutil.rmtree(self.config.directory, ignore_errors=True)

    def _wait_for_workers(self, seconds: float) -> None:
        deadline = self.reactor.clock() + seconds
        while self.pool.workers and self.reactor.clock() < deadline:
            self.reactor.poll(0.05)

    # -- messages --------------------------------------------------------------------------------------------------

    def _on_messages(self, connection: Connection, messages: list[Message]) -> None:
        for message in messages:
            if connection.closed:
                return
            if connection.info is None and not may_be_handled(message, _INTRODUCTIONS):
                connection.close("the peer did not introduce itself")
                return
            if not may_be_handled(message, self.handlers):
                connection.close(f"the peer sent {message!r:.100}, which is no message")
                return
            try:
                self.handlers[message[0]](connection, message)
            except Exception as error:
                if connection.info is None:
                    connection.close(f"the peer introduced itself in a way that can't be read: {error}")
                    return
                self.log.exception("a message could not be handled", operation=message[0])
        connection.flush()

    def _on_hello(self, connection: Connection, message: Message) -> None:
        _, process, role, pid, address, python, details = message
        if python != PYTHON:
            connection.close(f"the peer runs Python {python}, this node {PYTHON}: they must be the same")
            return
        connection.info = Peer(process, role, pid, address, details)
        self.connections[process] = connection

    def _on_attach(self, connection: Connection, message: Message) -> None:
        connection.on_close = lambda c, reason: None
        self.store.attach(connection)

    def _on_call(self, connection: Connection, message: Message) -> None:
        _, number, name, arguments = message
        method = self.methods.get(name)
        try:
            if method is None:
                raise ProtocolError(f"the node agent does not answer {name!r}")
            value = method(connection, *arguments)
        except KernelError as error:
            connection.send((op.REPLY_ERROR, number, pickle.dumps(error)))
            return
        except Exception as error:
            self.log.exception("a request failed", method=name)
            text = f"{name} failed in the node agent: {type(error).__name__}: {error}"
            connection.send((op.REPLY_ERROR, number, pickle.dumps(InternalError(text))))
            return
        if isinstance(value, Later):
            value.when_done(lambda result: self._answer(connection, number, result))
        else:
            connection.send((op.REPLY, number, value))

    def _answer(self, connection: Connection, number: int, value: Any) -> None:
        if not connection.closed:
            connection.send((op.REPLY, number, value))
            connection.flush()

    def ask(self, connection: Connection, method: str, then: Callable[[Any], None], *arguments: Any) -> None:
        """Ask a process something; `then(answer)` is called from the loop, with None when it can't answer."""
        self._question += 1
        self._asked[self._question] = (connection, then)
        connection.send((op.CALL, self._question, method, arguments))
        connection.flush()

    def _on_reply(self, connection: Connection, message: Message) -> None:
        asked = self._asked.pop(message[1], None)
        if asked is not None:
            asked[1](message[2] if message[0] == op.REPLY else None)

    def _send_to(self, process: ProcessId, message: Message) -> None:
        connection = self.connections.get(process)
        if connection is not None:
            connection.send(message)
            connection.flush()

    def _broadcast(self, message: Message) -> None:
        for connection in self.connections.values():
            connection.send(message)
            connection.flush()

    def socket_path(self, process: ProcessId) -> str:
        """Return where a process of this session listens."""
        return os.path.join(self.config.directory, "sockets", process.hex())

    def observe(self, kind: str, state: str, id: bytes, detail: dict[str, Any]) -> None:
        """Note a life cycle event."""
        self.observation.note(kind, state, id, time.time(), detail)

    # -- processes that join and leave -----------------------------------------------------------------------------

    def _register(self, connection: Connection) -> dict[str, Any]:
        peer: Peer = connection.info
        if peer.role == "worker":
            self.observe("worker", "ALIVE", peer.id, {"pid": peer.pid})
            self.workers.carry_out(self.pool.registered(peer.id, connection, self.reactor.clock()))
            return {}
        job = self.jobs.add(peer, time.time())
        if peer.details.get("prestart"):
            self.workers.carry_out(self.pool.prestart((job.id, job.environment)))
        return {"node": self.node, "catalog": pickle.dumps(self.manager.catalog())}

    def _on_close(self, connection: Connection, reason: str) -> None:
        peer: Peer | None = connection.info
        if peer is None:
            self.log.warning("connection refused", reason=reason)
            return
        if self.connections.get(peer.id) is not connection:
            return
        del self.connections[peer.id]
        for number in [n for n, asked in self._asked.items() if asked[0] is connection]:
            self._asked.pop(number)[1](None)
        self.desk.holder_left(connection)
        self.actors.owner_died(connection)
        if peer.role == "worker":
            self.workers.left(peer)
        else:
            self._driver_left(peer, connection)
        self.store.client_left(peer.id)

    def _driver_left(self, peer: Peer, connection: Connection) -> None:
        self.log_feed.forget(connection)
        job = self.jobs.end(peer.id, time.time())
        if job is None:
            return
        for worker in [w for w in self.pool.workers.values() if w.key[0] == job.id]:
            self.workers.end(worker.id, "its program ended", drain=False)
        if self.config.ephemeral and peer.details.get("starter"):
            self.end("the program that started it ended")

    # -- leases ----------------------------------------------------------------------------------------------------

    def _on_request_lease(self, connection: Connection, message: Message) -> None:
        _, id, shape, name = message
        wanted, more, environment = shape
        job = self.jobs.of_process(connection.info, self.pool)
        key = self.environment_for(connection, pickle.loads(environment) if environment else None)
        self.desk.request(id, job, connection.info.id, (wanted, more, key), name, connection)

    def environment_for(self, connection: Connection, asked: Mapping[str, Any] | None) -> str:
        """Return the key of what a process asks for: what that adds to its own environment."""
        worker = self.pool.workers.get(connection.info.id)
        if worker is not None:
            own = worker.key[1]
        else:
            own = self.jobs.get(self.jobs.of_process(connection.info, self.pool)).environment
        return self.environments.key_within(own, asked)

    def _on_return_lease(self, id: LeaseId, broken: bool) -> None:
        """Take a lease back. What an unusable worker held (a device's memory, too) is free when its process is gone."""
        if broken:
            self.desk.drop_worker(id)
            self.reactor.call_later(GRACE_SECONDS, lambda: self.desk.release(id, broken=True))
        else:
            self.desk.release(id, broken=False)

    def _on_blocked(self, connection: Connection, blocked: bool) -> None:
        worker = self.pool.workers.get(connection.info.id)
        if worker is not None and worker.lease is not None:
            self.desk.block(worker.lease, blocked)

    # -- the rest --------------------------------------------------------------------------------------------------

    def _origin(self, worker: bytes) -> tuple[int, str] | None:
        record = self.pool.workers.get(ProcessId(worker))
        return (record.pid, record.name) if record is not None else None

    def _on_lines(self, worker: bytes, stream: str, lines: list[str]) -> None:
        record = self.pool.workers.get(ProcessId(worker))
        if record is None:
            return
        drivers = self.jobs.listeners(record.key[0], self.connections)
        self.log_feed.send(drivers, record.pid, record.name, stream, lines)

    def _tick(self) -> None:
        self.reactor.call_later(TICK_SECONDS, self._tick)
        if self.desk.waiting:
            self.desk.tick()
        if self.observation.collect(OBSERVE_SECONDS):
            for worker in self.pool.workers.values():
                if worker.peer is not None and not worker.peer.closed:
                    note = partial(self.observation.note_calls, worker.id)
                    self.ask(worker.peer, "calls_since", note, self.observation.seen(worker.id))
        keep = max(1, int(self.total.get("CPU", 1)))
        for worker in self.pool.to_retire(self.reactor.clock(), keep, IDLE_WORKER_SECONDS):
            self.workers.ask_to_retire(worker)


def ignore_terminal_signals() -> None:
    """Leave Ctrl-C to the driver."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

"""The agent: one loop that ties the parts of a node together. It decides nothing itself.

What its processes ask of the session it passes on to the head (`kernel.control`), which may be in the same process.
"""

from __future__ import annotations

import math
import os
import pickle
import shutil
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from kernel.control import words
from kernel.control.config import HeadConfig
from kernel.control.door import Door
from kernel.control.head import Head
from kernel.control.job_table import DETACHED
from kernel.control.nodes import Node
from kernel.control_plane.doorbell import Doorbell, socket_path
from kernel.logs import Logger
from kernel.node import sessions
from kernel.node.config import AgentConfig
from kernel.node.detection import choose_store_bytes, detect_devices, host_name, total_resources
from kernel.node.head_child import HeadChild
from kernel.node.log_feed import LogFeed
from kernel.node.log_service import LogService
from kernel.node.memory_watch import MemoryWatch
from kernel.node.neighbours import Neighbours
from kernel.node.object_exchange import ObjectExchange
from kernel.node.open_requests import OpenRequests
from kernel.node.package_fetcher import PackageFetcher
from kernel.node.packages import Packages
from kernel.node.processes import end_descendants
from kernel.node.relay.service import RelayService
from kernel.node.store_service import StoreService
from kernel.node.template_link import TemplateLink
from kernel.node.uplink import LocalUplink, RemoteUplink, Uplink
from kernel.node.worker_service import GRACE_SECONDS, WorkerService
from kernel.plugins import PluginManager
from kernel.runtime import operations as op
from kernel.runtime.process import PYTHON, Peer
from kernel.transport.addresses import (
    AGENT,
    HEAD,
    TRANSFER,
    format_host_and_port,
    is_tcp,
    parse_host_and_port,
    place_of,
)
from kernel.transport.connection import ATTACH_OPERATION, Connection, Message, may_be_handled
from kernel.transport.credentials import Credentials
from kernel.transport.gateway import Gateway
from kernel.transport.listener import Listener
from kernel.transport.reactor import Reactor
from kernel_spec.errors import InternalError, KernelError, OptionError, PluginError
from kernel_spec.ids import JobId, NodeId, ProcessId
from kernel_spec.version import __version__

TICK_SECONDS = 0.1
END_SECONDS = 5.0
"""How long a head in another process may take to end the session."""
OBSERVE_SECONDS = 1.0
IDLE_WORKER_SECONDS = 15.0
STARTER_ENDED = "the program that started it ended"
_INTRODUCTIONS = (op.HELLO, ATTACH_OPERATION)
_FOR_THE_HEAD = (
    op.REQUEST_LEASE, op.CANCEL_LEASE, op.RETURN_LEASE, op.CREATE_ACTOR, op.ACTOR_ARGUMENTS, op.FORGET_ACTOR,
    op.SUBSCRIBE_ACTOR, op.ACTOR_READY, op.LAST_CALLS,
)  # fmt: skip
_DEPARTED_KEPT = 100_000
"""How many processes that have ended are remembered, so that nothing is stored for them any more."""


class Agent:
    """One node. `handlers` and `methods` are filled by the parts."""

    def __init__(
        self,
        config: AgentConfig,
        reactor: Reactor,
        manager: PluginManager,
        uplink: RemoteUplink | None = None,
        head_child: HeadChild | None = None,
    ) -> None:
        self.config = config
        self.reactor = reactor
        self.manager = manager
        self.log = Logger("kernel.node")
        self.node = NodeId(config.node)
        self.handlers: dict[int, Callable[[Connection, Message], None]] = {}
        self.methods: dict[str, Callable[..., Any]] = {}
        self.connections: dict[ProcessId, Connection] = {}
        self.ending: str | None = None
        self._leaves_at: float | None = None
        """When the node, which is being drained, leaves at the latest; infinity where there is no deadline."""
        self.jobs: dict[JobId, Mapping[str, Any]] = {}
        """The surroundings of each job's workers (see `Job.surroundings`)."""
        self._asked: dict[int, tuple[Connection, Callable[[Any], None]]] = {}
        self._question = 0
        self._dirty: set[Connection] = set()
        self._open_requests = OpenRequests()
        self._departed: OrderedDict[ProcessId, None] = OrderedDict()
        self._collected = 0.0
        self._observed_since = 0.0
        self._finishing: list[Callable[[], object]] = []
        """What is done at the end of each turn, in this order."""
        self.devices = [] if config.relay else detect_devices(manager.all("accelerator"))
        self.store_bytes = choose_store_bytes(config.store_bytes)
        self.total = {} if config.relay else self._detect_resources()
        self.packages = Packages(config.directory)
        self.package_fetcher = PackageFetcher(self.packages, reactor, lambda message: self.uplink.send(message))
        self.workers = WorkerService(self)
        self.pool = self.workers.pool
        self.tls = Credentials(config.tls) if config.tls is not None else None
        self.gateway = self._open_gateway()
        self.store = self._open_store()
        self.memory = MemoryWatch(self)
        self.exchange = self._open_exchange()
        self.relay = self._open_relay(uplink is None or head_child is not None)
        self.logs = LogService(reactor, os.path.join(config.directory, "logs"), self._origin, self._on_lines)
        self.log_feed = LogFeed()
        self.handlers |= self.store.handlers
        self.handlers |= dict.fromkeys(_FOR_THE_HEAD, self._relay)
        self.handlers |= {
            op.HELLO: self._on_hello,
            op.CALL: self._on_call,
            op.REPLY: self._on_reply,
            op.REPLY_ERROR: self._on_reply,
            ATTACH_OPERATION: self._on_attach,
            op.BLOCKED: lambda c, m: self._on_blocked(c, True),
            op.UNBLOCKED: lambda c, m: self._on_blocked(c, False),
        }
        self.methods |= {
            "register": self._register,
            "explain_storage": lambda connection, object: self.store.explain(object),
        }
        self._words: dict[int, Callable[..., None]] = {
            words.TO_PROCESS: self._answered,
            words.JOB: lambda job, said: self.jobs.__setitem__(job, pickle.loads(said)),
            words.ENVIRONMENT: lambda key, said: self.packages.learn(key, pickle.loads(said)),
            words.PACKAGE: self.package_fetcher.on_piece,
            words.FIND_WORKER: self.workers.find,
            words.DROP_WORKER: self.workers.drop,
            words.CONSTRUCT: self.workers.construct,
            words.END_WORKER: self.workers.end,
            words.KILL_WORKER: self.workers.kill,
            words.JOB_ENDED: self._job_ended,
            words.PROCESSES_GONE: self._processes_gone,
            words.ASK_PROCESS: self._ask_process,
            words.ASK_NODE: self._ask_node,
            words.SHOW_LINES: self._show_lines,
            words.OBSERVE: self._observe_from_now,
            words.END: self._stop,
            words.DRAIN: self._drain,
            words.RESOURCE: self._set_resource,
            words.MEMBER: self._member,
        }
        self.head: Head | None = None
        self.head_child = head_child
        if uplink is None:
            self._open_head()
        else:
            self._join(uplink)
        self.listener = Listener(
            os.path.join(config.directory, "agent.sock"),
            config.token,
            reactor,
            self._on_messages,
            self._on_close,
            self._refused,
        )
        self._finishing += [self.store.finish_disk_work, self.uplink.exchange, self._flush]
        if self.head is not None:
            self._finishing.append(self.head.observation.deliver)
        if self.door is not None:
            self._finishing.append(self.door.flush)
        if self.exchange is not None:
            self._finishing.append(self.exchange.neighbours.flush)
        if self.ending is not None:
            raise PluginError(self.ending)

    def _detect_resources(self) -> dict[str, float]:
        reached = self.config.advertised or self.config.listen
        host = parse_host_and_port(reached)[0] if reached else "127.0.0.1"
        return total_resources(self.config.resources, self.devices, host, self.store_bytes)

    def _open_gateway(self) -> Gateway | None:
        config = self.config
        if not config.listen and not config.relay:
            return None
        host, port = parse_host_and_port(config.listen) if config.listen else ("", 0)
        sockets = os.path.join(config.directory, "sockets")
        try:
            return Gateway(host, port, config.token, self.reactor, sockets, self._refused, tls=self.tls)
        except OSError as error:
            raise OptionError(f"nobody can listen at {config.listen}: {error.strerror}; choose another port") from error

    def _open_exchange(self) -> ObjectExchange | None:
        """Begin to give objects to other nodes, and to get theirs."""
        if self.gateway is None:
            return None
        place, token = self.gateway_address, self.config.token
        relay = self.config.relay
        neighbours = Neighbours(token, self.tls, self.reactor, self.send_to, self.store.delete, relay)
        self.gateway.serve_connections(AGENT, neighbours.on_messages, neighbours.on_close)
        exchange = ObjectExchange(
            place, token, self.tls, self.reactor, self.store, neighbours, self.send_to, self.connections.__contains__,
            relay,
        )  # fmt: skip
        self.gateway.serve_sockets(TRANSFER, exchange.transfer.serve)
        self.handlers |= exchange.handlers
        return exchange

    @property
    def gateway_address(self) -> str:
        """The place where other machines reach this node, "" if they can't."""
        if self.gateway is None:
            return ""
        if self.config.relay:
            return self.config.advertised
        if not self.config.advertised:
            return self.gateway.address
        host, port = parse_host_and_port(self.config.advertised)
        return format_host_and_port(host, port or self.gateway.port)

    def _open_relay(self, beside_head: bool) -> RelayService | None:
        """Begin to relay between remote drivers and nodes, if this is the head's node."""
        if self.gateway is None or not beside_head:
            return None
        return RelayService(self.gateway, self.gateway_address, self.config.directory, self.reactor)

    def _member(self, place: str, there: bool) -> None:
        if self.relay is not None:
            self.relay.member(place, there)

    def _open_head(self) -> None:
        """Make the head in this process, and join it."""
        config = self.config
        told = HeadConfig(config.directory, config.directory, config.ephemeral, config.head_services, config.node)
        head = self.head = Head(told, self.reactor, self.manager, self._stop)
        uplink = LocalUplink(lambda message: head.handle(node, message), self._handle)
        self.uplink: Uplink = uplink
        self.observed = head.observation.active
        node = Node(self.node, uplink.send_down, joined=time.time(), **self._description())
        head.add_node(node)
        self.door: Door | None = None
        self.doorbell: Doorbell | None = None
        if self.gateway is not None:
            self.doorbell = Doorbell(head, config.directory, config.token, config.tls)
            self.gateway.splice_to = socket_path(config.directory)
            shared = {"plugins": self.manager.selected_names(), "observed": self.observed, "durable": False}
            self.door = Door(head, shared, config.death_seconds)
            self.gateway.serve_connections(HEAD, self.door.on_messages, self.door.on_close)

    def _join(self, uplink: RemoteUplink) -> None:
        """Join a head elsewhere."""
        self.uplink = uplink
        self.observed = bool(uplink.settings["observed"])
        self.door = None
        self.doorbell = None
        if self.head_child is not None and self.gateway is not None:
            self.gateway.splice_to = socket_path(self.config.directory)
        if self.head_child is None:
            self.methods["stop"] = lambda connection: self.end("it was asked to stop")
        else:
            self.head_child.supervise(self.reactor, bool(uplink.settings["durable"]), self._head_is_lost)
        self._open_requests.watch = bool(uplink.settings["durable"])
        uplink.begin(self._description(), self._handle, self._snapshot, partial(self._uplink_is_lost, uplink))

    def _uplink_is_lost(self, uplink: RemoteUplink, reason: str) -> None:
        if self.head_child is None or uplink.was_refused:  # else who looks after it knows more
            self._head_is_lost(f"the head is gone: {reason}")

    def _head_is_lost(self, reason: str) -> None:
        if self.ending is None:
            self.log.error("the session ends", reason=reason)
        self._stop(reason)

    def _drain(self, seconds: float | None) -> None:
        """This node is to leave."""
        self._leaves_at = math.inf if seconds is None else self.reactor.clock() + seconds

    def _set_resource(self, name: str, quantity: float) -> None:
        """A custom resource was set at run time: another head must hear so."""
        self.total[name] = quantity
        if not quantity:
            del self.total[name]

    def _snapshot(self) -> Iterator[Message]:
        """Yield all that a head must know of this node when it takes the place of one that has died."""
        if self._leaves_at is not None:
            left = self._leaves_at - self.reactor.clock()
            yield (words.DRAINING, None if math.isinf(left) else max(0.0, left))
        for connection in self.connections.values():
            yield self._introduction(connection.info)
        for lease, held in self.workers.held.items():
            worker = self.pool.of_lease(lease)
            if worker is not None:
                yield (words.LEASE_HELD, held, worker.id, worker.blocked)
            else:
                yield (words.LEASE_HELD, held, b"", False)
        for process, message in self._open_requests.messages():
            yield (words.FROM_PROCESS, process, message)

    def _description(self) -> dict[str, Any]:
        return {
            "total": self.total,
            "labels": dict(self.config.labels),
            "devices": tuple(self.devices) or ("GPU",),
            "host": host_name(),
            "address": self.gateway_address,
            "directory": self.config.directory,
            "pid": os.getpid(),
            "version": __version__,
            "client": bool(self.config.relay),
        }

    def _refused(self, reason: str) -> None:
        self.log.warning("connection refused", reason=reason)

    def _open_store(self) -> StoreService:
        config = self.config
        server = self.manager.choose("object_store")().open_server(self.store_bytes, config.store_directory)
        spill = self.manager.choose("spill_target")(config.spill_directory or os.path.join(config.directory, "spill"))
        directory = getattr(spill, "directory", "")
        head = place_of(config.head) if is_tcp(config.head) else ""
        sessions.describe(
            config.directory, os.getpid(), not config.ephemeral, directory, self.gateway_address, config.tls, head,
            config.relay,
        )  # fmt: skip
        departed = self._departed.__contains__
        return StoreService(server, spill, self.reactor, self.send_to, self._broadcast, departed, self.observe)

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
                "gateway": self.gateway_address,
                "tls": self.config.tls,
                "agent": os.getpid(),
            }
        )

    def run(self) -> None:
        """Serve until the session ends."""
        self.reactor.call_later(TICK_SECONDS, self._tick)
        self.memory.start()
        if self.head is not None:
            self.head.start()
        while self.ending is None:
            self._turn(60.0)
        self._shut_down()

    def _turn(self, seconds: float) -> None:
        """Do what is to be done, and wait up to `seconds` for it. What raises is logged, and the session goes on."""
        try:
            self.reactor.poll(seconds)
            for finish in self._finishing:
                finish()
        except Exception:
            self.log.exception("something failed in the node agent")

    def _flush(self) -> None:
        while self._dirty:
            self._dirty.pop().flush()

    def end_with(self, starter: int) -> None:
        """End the session at the end of a pipe whose other end the program that started it holds."""

        def ended(events: int) -> None:
            self.reactor.unregister(starter)
            self.end(STARTER_ENDED)

        self.reactor.register(starter, ended)

    def end(self, reason: str) -> None:
        """End the session."""
        if self.head is not None:
            self.head.end(reason)
        elif self.head_child is not None:
            self.uplink.send((words.END_SESSION, reason))
            self.reactor.call_later(END_SECONDS, lambda: self._stop(reason))
        else:
            self._stop(reason)

    def _stop(self, reason: str) -> None:
        """The session is over: serve no longer."""
        self.ending = self.ending or reason
        self.reactor.wake()

    def _shut_down(self) -> None:
        self.log.debug("the session ends", reason=self.ending)
        if self.doorbell is not None:
            self.doorbell.close(self._turn)
        if self.head is not None:
            self.head.services.stop()
        for worker in self.pool.workers.values():
            worker.cause = worker.cause or f"its node ended: {self.ending}"
        for connection in self.connections.values():
            connection.send((op.EXIT, self.ending, False))
            connection.flush()
        self._wait_for_workers(GRACE_SECONDS if self.observed else 0.5)
        template = self.workers.template.pid if self.workers.template is not None else 0
        head = self.head_child.pid if self.head_child is not None else 0
        end_descendants(os.getpid(), frozenset([template, head]))
        self.logs.drain()
        for connection in self.connections.values():
            connection.flush()
        for connection in list(self.connections.values()):
            connection.on_close = lambda c, reason: None
            connection.close("the session ended")
        self.listener.close()
        if self.workers.template is not None:
            self.workers.template.close()
        end_descendants(os.getpid(), frozenset([head]))
        if self.exchange is not None:
            self.exchange.close()
        self.store.close()
        self.logs.close()
        if isinstance(self.uplink, RemoteUplink):
            self.uplink.leave(f"it ended: {self.ending}")
        if self.relay is not None:
            self.relay.close()
        if self.door is not None:
            self.door.close()
        if self.head is not None:
            self.head.close()
        if self.head_child is not None:
            self.head_child.close()
        if self.gateway is not None:
            self.gateway.close()
        if self.config.ephemeral:
            shutil.rmtree(self.config.directory, ignore_errors=True)
        else:
            sessions.end(self.config.directory, self.ending or "")

    def _wait_for_workers(self, seconds: float) -> None:
        deadline = self.reactor.clock() + seconds
        while self.pool.workers and self.reactor.clock() < deadline:
            self._turn(0.05)

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
        self._dirty.add(connection)

    def _on_hello(self, connection: Connection, message: Message) -> None:
        _, process, role, pid, address, python, details = message
        if python != PYTHON:
            connection.close(f"the peer runs Python {python}, this node {PYTHON}: they must be the same")
            return
        connection.info = Peer(process, role, pid, address, details)
        self.connections[process] = connection
        self.uplink.send(self._introduction(connection.info))

    def _introduction(self, peer: Peer) -> Message:
        worker = self.pool.workers.get(peer.id)
        job, environment = worker.key if worker is not None else (peer.details.get("job", b""), "")
        return (words.PROCESS_JOINED, peer.id, peer.role, peer.pid, peer.address, job, environment, peer.details)

    def _relay(self, connection: Connection, message: Message) -> None:
        self._open_requests.asked(connection.info.id, message)
        self.uplink.send((words.FROM_PROCESS, connection.info.id, message))

    def _answered(self, process: ProcessId, message: Message) -> None:
        """The head says something to a process."""
        self._open_requests.answered(process, message)
        self.send_to(process, message)

    def _handle(self, message: Message) -> None:
        """Do what the head says."""
        try:
            self._words[message[0]](*message[1:])
        except Exception:
            self.log.exception("a message of the head could not be handled", word=message[0])

    def _on_attach(self, connection: Connection, message: Message) -> None:
        connection.on_close = lambda c, reason: None
        self.store.attach(connection)

    def _on_call(self, connection: Connection, message: Message) -> None:
        _, number, name, arguments = message
        method = self.methods.get(name)
        if method is None:
            self._relay(connection, message)
            return
        try:
            value = method(connection, *arguments)
        except KernelError as error:
            connection.send((op.REPLY_ERROR, number, pickle.dumps(error)))
            return
        except Exception as error:
            self.log.exception("a request failed", method=name)
            text = f"{name} failed in the node agent: {type(error).__name__}: {error}"
            connection.send((op.REPLY_ERROR, number, pickle.dumps(InternalError(text))))
            return
        connection.send((op.REPLY, number, value))

    def ask(self, connection: Connection, method: str, then: Callable[[Any], None], *arguments: Any) -> None:
        """Ask a process something; `then(answer)` is called from the loop, with None when it can't answer."""
        self._question += 1
        self._asked[self._question] = (connection, then)
        connection.send((op.CALL, self._question, method, arguments))
        self._dirty.add(connection)

    def _on_reply(self, connection: Connection, message: Message) -> None:
        asked = self._asked.pop(message[1], None)
        if asked is not None:
            asked[1](message[2] if message[0] == op.REPLY else None)

    def send_to(self, process: ProcessId, message: Message) -> None:
        """Queue a message to a process of this node, if it is still there."""
        connection = self.connections.get(process)
        if connection is not None:
            connection.send(message)
            self._dirty.add(connection)

    def _broadcast(self, message: Message) -> None:
        for process in self.connections:
            self.send_to(process, message)

    def _ask_process(self, number: int, process: ProcessId, method: str, arguments: tuple[Any, ...]) -> None:
        connection = self.connections.get(process)
        if connection is None:
            self.uplink.send((words.ANSWER, number, None))
        else:
            self.ask(connection, method, lambda value: self.uplink.send((words.ANSWER, number, value)), *arguments)

    def _ask_node(self, number: int, method: str, arguments: tuple[Any, ...]) -> None:
        if method == "copy" and self.exchange is not None:
            self.exchange.copy(*arguments, lambda copied: self.uplink.send((words.ANSWER, number, copied)))
            return
        answer = self._drain_output() if method == "drain_output" else self._report(*arguments)
        self.uplink.send((words.ANSWER, number, answer))

    def socket_path(self, process: ProcessId) -> str:
        """Return where a process of this session listens."""
        return os.path.join(self.config.directory, "sockets", process.hex())

    def observe(self, kind: str, state: str, id: bytes, detail: dict[str, Any]) -> None:
        """Note a life cycle event, if anybody listens."""
        if self.observed:
            self.uplink.send((words.EVENTS, [(kind, state, id, time.time(), detail)]))

    def _observe_from_now(self, wanted: bool) -> None:
        """Begin, or stop, to tell the head what happens here. What happened before is nobody's concern."""
        if wanted and not self.observed:
            self._observed_since = time.time()
        self.observed = wanted

    # -- processes that join and leave -----------------------------------------------------------------------------

    def _register(self, connection: Connection) -> dict[str, Any]:
        peer: Peer = connection.info
        if peer.role == "worker":
            self.workers.carry_out(self.pool.registered(peer.id, connection, self.reactor.clock()))
            return {"observed": self.observed}
        job, said = JobId(peer.details.get("job", b"")), peer.details
        self.store.quotas.limit(peer.id, said.get("store_bytes", 0), "its driver_object_store_memory")
        self.jobs.setdefault(job, {name: said[name] for name in ("namespace", "cwd", "path", "variables")})
        if said.get("prestart"):
            self.workers.carry_out(self.pool.prestart((job, "")))
        return {"node": self.node, "catalog": pickle.dumps(self.manager.catalog())}

    def _on_close(self, connection: Connection, reason: str) -> None:
        peer: Peer | None = connection.info
        if peer is None:
            self._refused(reason)
            return
        if self.connections.get(peer.id) is not connection:
            return
        del self.connections[peer.id]
        for number in [n for n, asked in self._asked.items() if asked[0] is connection]:
            self._asked.pop(number)[1](None)
        self._open_requests.forget(peer.id)
        self.uplink.send((words.PROCESS_LEFT, peer.id))
        if peer.role == "worker":
            self.workers.left(peer)
        else:
            self.log_feed.forget(connection)
        self._forget(peer.id)

    def _forget(self, process: ProcessId) -> None:
        """A process, here or elsewhere, has ended: free what is stored for it."""
        self._departed[process] = None
        if len(self._departed) > _DEPARTED_KEPT:
            self._departed.popitem(last=False)
        if self.exchange is not None:
            self.exchange.transfer.owner_left(process)
        self.store.client_left(process)

    def _processes_gone(self, processes: list[ProcessId], place: str) -> None:
        for process in processes:
            self._forget(process)
        if place and self.exchange is not None:
            self.exchange.neighbours.forget(place)
            self._broadcast((op.PEERS_GONE, processes, place))

    def _job_ended(self, job: JobId) -> None:
        self.jobs.pop(job, None)
        for worker in [worker for worker in self.pool.workers.values() if worker.key[0] == job]:
            self.workers.end(worker.id, "its program ended", drain=False)

    def _on_blocked(self, connection: Connection, blocked: bool) -> None:
        worker = self.pool.workers.get(connection.info.id)
        if worker is not None and worker.lease is not None:
            worker.blocked = blocked
            self.uplink.send((words.LEASE_BLOCKED, worker.lease, blocked))

    # -- the rest --------------------------------------------------------------------------------------------------

    def _report(self, objects: bool) -> dict[str, Any]:
        """Return what the head shows of this node; with `objects` also every object of the store."""
        usage = self.store.server.usage()
        rows = self.store.server.objects() if objects else ()
        return {
            "workers": [
                {
                    "worker_id": worker.id.hex(),
                    "pid": worker.pid,
                    "state": worker.state,
                    "name": worker.actor or worker.work.name,
                    "job_id": worker.key[0].hex(),
                    "node_id": self.node.hex(),
                }
                for worker in self.pool.workers.values()
            ],
            "store": {name: getattr(usage, name) for name in usage.__dataclass_fields__},
            "memory": self.memory.status(),
            "held": self.memory.sizes([one.info.pid for one in self.connections.values()]) if objects else {},
            "stored": [(row.object, row.owner, row.size, row.state, dict(row.pins)) for row in rows],
        }

    def _drain_output(self) -> None:
        self.logs.drain()

    def _origin(self, worker: bytes) -> tuple[int, str] | None:
        record = self.pool.workers.get(ProcessId(worker))
        return (record.pid, record.actor) if record is not None else None

    def _on_lines(self, worker: bytes, name: str, stream: str, lines: list[str]) -> None:
        record = self.pool.workers.get(ProcessId(worker))
        if record is None:
            return
        job = record.key[0]
        if self._show_lines(job, record.pid, name, stream, lines) == 0 or job.startswith(DETACHED):
            self.uplink.send((words.LINES, job, record.pid, name, stream, lines))

    def _show_lines(self, job: bytes, pid: int, name: str, stream: str, lines: list[str]) -> int:
        """Show output to the drivers of this node that it concerns, and return how many there are."""
        everybody = job.startswith(DETACHED)
        drivers = [
            connection
            for connection in self.connections.values()
            if connection.info.role == "driver" and (everybody or connection.info.details.get("job") == job)
        ]
        wanting = [connection for connection in drivers if connection.info.details.get("wants_logs", True)]
        self.log_feed.send(wanting, pid, name, stream, lines)
        return len(drivers)

    def _tick(self) -> None:
        self.reactor.call_later(TICK_SECONDS, self._tick)
        self.workers.reap()
        now = self.reactor.clock()
        if self.observed and now - self._collected >= OBSERVE_SECONDS:
            self._collected = now
            for worker in self.pool.workers.values():
                if worker.peer is not None and not worker.peer.closed:
                    self.ask(worker.peer, "new_calls", partial(self._on_new_calls, worker.id))
        keep = max(1, int(self.total.get("CPU", 1)))
        limits = (keep, IDLE_WORKER_SECONDS) if self._leaves_at is None else (0, 0.0)
        for worker in self.pool.to_retire(self.reactor.clock(), *limits):
            self.workers.ask_to_retire(worker)

    def _on_new_calls(self, worker: ProcessId, calls: Any) -> None:
        if calls:
            self.uplink.send((words.CALLS, worker, [call for call in calls if call[3] >= self._observed_since]))

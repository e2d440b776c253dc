"""The basis of every process that runs user code: one lock, one loop, connections to its agent and its peers.

The state of all parts of a process is guarded by `lock` and changed only under it; messages are handled under it, in
batches. No interrupt strikes a thread that holds it (see `interrupts`), so no state is ever left half changed.
"""

from __future__ import annotations

import errno
import os
import pickle
import threading
import time
from collections.abc import Callable, Sized
from functools import partial
from itertools import compress
from typing import Any

import kernel_processes.own_code  # noqa: F401  (before anything here can be interrupted)
from kernel.logs import Logger
from kernel.runtime.critical_sections import critical
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, number_of, packed, unpacked
from kernel_processes.protocol.identity import Identity, Peer
from kernel_processes.protocol.python_version import PYTHON
from kernel_processes.runtime.fork_safety import joined
from kernel_processes.runtime.interrupts import Interrupts
from kernel_processes.runtime.lost_connections import LostConnections
from kernel_processes.runtime.message_pump import MessagePump
from kernel_processes.runtime.peer_connections import PeerConnections
from kernel_processes.runtime.peer_requests import AnsweredRequest, PeerRequest, PeerRequests
from kernel_processes.runtime.session_end import SessionEnd
from kernel_processes.system.starting import NO_ROOM
from kernel_processes.transport.connect import Connector
from kernel_processes.transport.connection import Connection, may_be_handled
from kernel_processes.transport.process_listener import ProcessListener
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import InternalError, KernelError, ProtocolError, SessionEndedError
from kernel_spec.ids import ProcessId

_FLUSH_AT = 64
LAST_SECONDS = 2.0
"""Seconds for which an ending process waits until its peers have received its last messages."""
_MOMENT_SECONDS = 0.005

_INTRODUCTIONS = (number_of(op.Introduction),)

Handler = Callable[[Connection, Message], None]


class Process:
    """Holds the connections, requests and dispatch of a process. Parts of the runtime register handlers with it."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.id = identity.id
        self.lock = threading.RLock()
        self.log = Logger("kernel.runtime", process=identity.id.hex()[:8])
        self.reactor = Reactor()
        self.reactor.on_error = lambda: self.log.exception("something failed between two messages")
        self.pump = MessagePump(self.reactor, self.flush, identity.role)
        self.interrupts = Interrupts(self.lock, self.reactor, self.pump)
        self.raise_interrupt = self.pump.raise_interrupt = self.interrupts.raise_kept
        self.address = identity.address()
        self._connector = Connector(identity.token, self.reactor, identity.network, identity.tls)
        self.agent_address = os.path.join(identity.directory, "agent.sock")
        self.agent: Connection | None = None
        self.closing = False
        self.ended: str | None = None
        """Why nothing can be submitted or waited for any more."""
        self.session_end = SessionEnd()
        self._requests = PeerRequests()
        replies = (op.REPLY, op.REPLY_ERROR, op.REPLY_PICKLED)
        self.handlers: dict[int, Handler] = dict.fromkeys(replies, self._requests.on_reply)
        self.handlers[number_of(op.Introduction)] = self._hello
        self.methods: dict[str, Callable[..., Any]] = {}
        self.handlers[op.CALL] = self._call
        self.handlers[number_of(op.EndProcess)] = self._agent_ends
        self.handlers[number_of(op.PeersGone)] = self._peers_gone
        self._leftovers: list[Sized] = []
        self._clearing: list[Callable[[], None]] = []
        self.on_peer_lost: list[Callable[[Peer, str], None]] = []
        self.on_place_lost: list[Callable[[str], None]] = []
        self.on_peer_met: Callable[[ProcessId], None] = lambda process: None
        self.on_agent_lost: Callable[[str], None] | None = None
        self._dirty: set[Connection] = set()
        self.peers = PeerConnections()
        self._listener: ProcessListener | None = None
        self._lost_connections = LostConnections(self.reactor.call_later, self._ask_whether_ended)
        self.on_forked: list[Callable[[], None]] = []

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self, pid_details: dict[str, Any]) -> dict[str, Any]:
        """Listen, connect to the agent, introduce ourselves and return the agent's answer."""
        joined.append(self)
        self._listener = ProcessListener(
            self.identity.socket_path(self.id),
            self.identity.token,
            self.reactor,
            self._on_messages,
            self._on_close,
            lambda reason: self.log.warning("connection refused", reason=reason),
            self._connector.network() if self.identity.gateway else None,
        )
        try:
            self.agent = self._connect(self.agent_address)
        except OSError as error:
            raise SessionEndedError(
                f"no node agent answers at {self.agent_address} ({error.strerror}); "
                "start one with `kernel start --head`, or call init() without an address"
            ) from error
        self.peers.all.add(self.agent)
        self.agent.info = Peer(ProcessId(b"agent"), "agent", 0, self.agent_address, via=self.agent)
        self.send_hello(self.agent, pid_details)
        try:
            self.pump.start()
        except RuntimeError:
            raise SessionEndedError(f"this process can't start the thread that it needs: {NO_ROOM}") from None
        answer: dict[str, Any] = self.call_agent("register")
        return answer

    def _connect(self, address: str) -> Connection:
        return self._connector.connect(address, self._on_messages, self._on_close)

    def stop(self) -> None:
        """Close every connection and the loop."""
        self.closing = True
        if self in joined:
            joined.remove(self)
        self.interrupts.remove()
        self.flush()
        self.pump.stop()
        with self.lock:
            if self._listener is not None:
                self._listener.close()
            for connection in list(self.peers.all):
                connection.close("shutting down")
            self._requests.fail("the session was shut down")
        self.reactor.close()

    def abandon(self) -> None:
        """Leave the session in a forked child: it belongs to the parent, whose threads are not here."""
        self.closing = True
        self.interrupts.remove()
        self.lock = threading.RLock()  # Such a thread may hold the old lock.
        if self._listener is not None:
            self._listener.abandon()
        for connection in self.peers.all:
            connection.abandon()
        self.reactor.close()
        for function in self.on_forked:
            function()

    def send_hello(self, connection: Connection, details: dict[str, Any] | None = None) -> None:
        """Introduce this process on a new connection."""
        identity = self.identity
        connection.send(
            packed(
                op.Introduction(
                    process=self.id,
                    role=identity.role,
                    pid=os.getpid(),
                    address=self.address,
                    python=PYTHON,
                    details=details or {},
                )
            )
        )
        connection.flush()

    # -- sending ---------------------------------------------------------------------------------------------------

    @critical
    def send(self, connection: Connection, message: Message) -> None:
        """Queue a message under the lock; it leaves with the next flush, soon."""
        outbox = connection.outbox
        outbox.append(message)
        self._dirty.add(connection)
        if len(outbox) >= _FLUSH_AT:
            connection.flush()

    def tell_agent(self, message: Message) -> None:
        """Queue a message to the node agent."""
        if self.agent is not None:
            self.send(self.agent, message)

    @critical
    def flush(self) -> None:
        """Write everything queued."""
        dirty = self._dirty
        while dirty:
            try:
                connection = dirty.pop()
            except KeyError:
                return
            connection.flush()

    def write_out(self, seconds: float = LAST_SECONDS) -> None:
        """Write everything queued, waiting `seconds` in all for peers that read slowly: this process ends now."""
        deadline = self.reactor.clock() + seconds
        for connection in list(self.peers.all):
            while connection.fd < 0 and connection.outbox and not connection.closed and self.reactor.clock() < deadline:
                self.pump.poll_now()  # The connection is being made.
                time.sleep(_MOMENT_SECONDS)
            connection.write_out(max(0.0, deadline - self.reactor.clock()))

    def flush_soon(self) -> None:
        """Write everything queued within milliseconds, in any free thread."""
        self.pump.flush_soon()

    def peer(self, process: ProcessId, address: str) -> Connection:
        """Return the connection to `process`, made now if need be. Under the lock.

        Raises OSError when it is gone; that of a process on another node shows later, as the loss of the peer.
        """
        connection = self.peers.sending.get(process)
        if connection is None or connection.closed:
            try:
                connection = self._connect(self.identity.near(process, address))
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self.log.error("a worker can't be reached; allow more with `ulimit -n`", error=error.strerror)
                elif self.session_end.of_changed_user(error):
                    self.lose_agent(error)
                raise
            self.peers.dialled(connection, process, address)
            self.on_peer_met(process)
            self.send_hello(connection)
        return connection

    # -- requests --------------------------------------------------------------------------------------------------

    def request(self, connection: Connection, method: str, *arguments: Any) -> PeerRequest:
        """Send a request; wait on the returned object. Under the lock or not."""
        with self.lock:
            request = self.expect_reply(connection)
            self.send(connection, (op.CALL, request.number, method, arguments))
        return request

    def expect_reply(
        self, connection: Connection, kind: Callable[[int, Connection], PeerRequest] = PeerRequest
    ) -> PeerRequest:
        """Return a new pending request, whose number the caller puts into a message of its own. Under the lock."""
        request = self._requests.begin(connection, kind)
        if connection.closed:
            is_agent = connection is self.agent
            request.fail(self.session_end.error() if is_agent else SessionEndedError("the connection is closed"))
        return request

    def result(self, request: PeerRequest, timeout: float | None = None) -> Any:
        """Block for a request's answer and return it, or raise its error. Raises TimeoutError after `timeout` s."""
        deadline = None if timeout is None else self.reactor.clock() + timeout
        done = self.pump.wait(request, deadline)
        self._requests.forget(request)
        if not done:
            raise TimeoutError(f"no answer within {timeout} s")
        if request.failed:
            raise request.take_error()
        return request.value

    def withdraw(self, request: PeerRequest, undo: Callable[[], None]) -> None:
        """See `PeerRequests.withdraw`."""
        with self.lock:
            self._requests.withdraw(request, undo)

    def call_agent(self, method: str, *arguments: Any, timeout: float | None = None) -> Any:
        """Ask the node agent and return its answer."""
        if self.agent is None or self.agent.closed:
            raise self.session_end.error()
        return self.result(self.request(self.agent, method, *arguments), timeout)

    def _ask_whether_ended(self, peer: ProcessId, then: Callable[[bool], None]) -> bool:
        """Ask the node agent whether a peer has ended, and go on; return whether there is an agent to ask."""
        with self.lock:
            agent = self.agent
            if self.closing or agent is None or agent.closed:
                return False
            request = self.expect_reply(agent, partial(AnsweredRequest, then))
            self.send(agent, (op.CALL, request.number, "has_ended", (peer,)))
        self.flush()
        return True

    # -- receiving -------------------------------------------------------------------------------------------------

    def _on_messages(self, connection: Connection, messages: list[Message]) -> None:
        handlers = self.handlers
        with self.lock:
            if connection.info is None and not self._introduce(connection, messages.pop(0)):
                return
            via = connection.info.via
            if via.closed:
                via = connection
            for message in messages:
                try:
                    handlers[message[0]](via, message)
                except Exception as error:
                    if not may_be_handled(message, handlers):
                        connection.close(f"the peer sent {message!r:.100}, which is no message: {error!r}")
                        break
                    self.log.exception("a message could not be handled", operation=message[0])
            for function in compress(self._clearing, self._leftovers):
                function()
        if self.pump.interrupts:
            self.raise_interrupt()

    def after_batch(self, leftovers: Sized, function: Callable[[], None]) -> None:
        """Call `function`, under the lock, after each batch of messages that leaves something in `leftovers`."""
        self._leftovers.append(leftovers)
        self._clearing.append(function)

    def finish_batch(self) -> None:
        """Do the work that changes of the state have left over. Under the lock."""
        for function in compress(self._clearing, self._leftovers):
            function()

    def _introduce(self, connection: Connection, message: Message) -> bool:
        """Handle the first message of a connection; return whether it identifies the peer."""
        if not may_be_handled(message, _INTRODUCTIONS):
            connection.close("the peer did not introduce itself")
            return False
        try:
            self._hello(connection, message)
        except Exception as error:
            connection.close(f"the peer sent {message!r:.100}, which is no message: {error!r}")
        return connection.info is not None

    def _hello(self, connection: Connection, message: Message) -> None:
        said = unpacked(op.Introduction, message)
        if said.python != PYTHON:
            connection.close(f"the peer runs Python {said.python}, this process {PYTHON}: they must be the same")
            return
        self.peers.introduced(connection, Peer(said.process, said.role, said.pid, said.address, said.details))
        self._lost_connections.watch(connection)
        self.on_peer_met(said.process)

    def _call(self, connection: Connection, message: Message) -> None:
        _, number, name, arguments = message
        method = self.methods.get(name)
        try:
            if method is None:
                raise ProtocolError(f"this process does not answer {name!r}")
            answer: Message = (op.REPLY, number, method(*arguments))
        except KernelError as error:
            answer = (op.REPLY_ERROR, number, pickle.dumps(error))
        except Exception as error:
            self.log.exception("a request failed", method=name)
            answer = (op.REPLY_ERROR, number, pickle.dumps(InternalError(f"{name} failed: {error!r}")))
        self.send(connection, answer)

    def _on_close(self, connection: Connection, reason: str) -> None:
        with self.lock:
            if connection is self.agent and not self.closing:
                self.session_end.lost(f"its node agent died ({reason})")
                reason = str(self.session_end.error())
            self._dirty.discard(connection)
            self.peers.all.discard(connection)
            self._requests.fail(reason, connection)
            if self.closing:
                return
            if connection is self.agent:
                if self.on_agent_lost is not None:
                    self._try(self.on_agent_lost, reason)
                return
            if connection.info is None:
                self.log.warning("connection refused", reason=reason)
            else:
                if self.peers.lost(connection, reason):
                    for function in self.on_peer_lost:
                        self._try(function, connection.info, reason)
                self._try(self.finish_batch)

    def _peers_gone(self, connection: Connection, message: Message) -> None:
        """A node is gone, and its processes with it: no end of a connection would say so."""
        said = unpacked(op.PeersGone, message)
        for gone in self.peers.of(set(said.processes), said.place):
            gone.close("its node is gone")
        for function in self.on_place_lost:
            self._try(function, said.place)

    def _agent_ends(self, connection: Connection, message: Message) -> None:
        self.session_end.announced(unpacked(op.EndProcess, message).reason)

    def lose_agent(self, error: OSError | ProtocolError) -> None:
        """The agent is gone although its connection has not ended, or it can't be reached any more."""
        with self.lock:
            self.session_end.lost(self.session_end.of_changed_user(error))
            if self.agent is not None:
                self.agent.close(str(error))

    def _try(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call one of several functions that must all be called, whatever the others raise."""
        try:
            function(*arguments)
        except Exception:
            self.reactor.on_error()

"""What every process that runs user code has: one lock, one loop, connections to its agent and its peers.

The state of all parts of a process is guarded by `lock` and changed only under it; messages are handled under it, in
batches. A signal (Ctrl-C, a cancellation) that arrives in the main thread while it holds the lock is kept until the
lock is free, so no state is ever left half changed.
"""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kernel.logs import Logger
from kernel.runtime import operations as op
from kernel.runtime.current import leave_in_child
from kernel.runtime.waiting import Pump, Waiter
from kernel.transport.connection import Connection, Message, connect, may_be_handled
from kernel.transport.listener import Listener
from kernel.transport.reactor import Reactor
from kernel_spec.errors import InternalError, KernelError, ProtocolError, SessionEndedError
from kernel_spec.ids import ProcessId

AGENT_GONE = (
    "the node agent has ended, and with it this session and its objects; "
    "call kernel.shutdown() and kernel.init() to begin another"
)
_FLUSH_AT = 64
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

Handler = Callable[[Connection, Message], None]


@dataclass(slots=True)
class Peer:
    """Who is at the other end of a connection.

    `via` is the connection on which this process sends to it. There may be two, when both connected at once; always
    sending on the same one keeps everything that one process says to another in order.
    """

    id: ProcessId
    role: str
    pid: int
    address: str
    details: dict[str, Any] = field(default_factory=dict)
    via: Any = None


@dataclass(slots=True)
class Identity:
    """Who this process is."""

    id: ProcessId
    role: str
    node: bytes
    job: bytes
    directory: str
    token: bytes

    def socket_path(self, process: ProcessId) -> str:
        """Return where `process` of this session listens."""
        return os.path.join(self.directory, "sockets", process.hex())


class Process:
    """Connections, requests and dispatch. Parts of the runtime register handlers for their operations."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.id = identity.id
        self.lock = threading.RLock()
        self.reactor = Reactor()
        self.log = Logger("kernel.runtime", process=identity.id.hex()[:8])
        self.pump = Pump(self.reactor, self.flush, identity.role)
        self.pump.check_interrupt = self.raise_interrupt
        self.address = identity.socket_path(identity.id)
        self.agent_address = os.path.join(identity.directory, "agent.sock")
        self.agent: Connection | None = None
        self.closing = False
        self.handlers: dict[int, Handler] = {op.HELLO: self._hello, op.REPLY: self._reply, op.REPLY_ERROR: self._reply}
        self.methods: dict[str, Callable[..., Any]] = {}
        self.handlers[op.CALL] = self._call
        self.after_batch: list[Callable[[], None]] = []
        self.on_peer_lost: list[Callable[[Peer, str], None]] = []
        self.on_agent_lost: Callable[[str], None] | None = None
        self._dirty: set[Connection] = set()
        self._peers: dict[ProcessId, Connection] = {}
        self._requests: dict[int, _Request] = {}
        self._request_numbers = itertools.count(1)
        self._listener: Listener | None = None
        self.pending_interrupt: BaseException | None = None
        self._connections: set[Connection] = set()
        self.on_forked: list[Callable[[], None]] = []

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self, pid_details: dict[str, Any]) -> dict[str, Any]:
        """Listen, connect to the agent, introduce ourselves and return the agent's answer."""
        _joined.append(self)
        self._listener = Listener(
            self.address,
            self.identity.token,
            self.reactor,
            self._on_messages,
            self._on_close,
            lambda reason: self.log.warning("connection refused", reason=reason),
        )
        try:
            self.agent = connect(
                self.agent_address, self.identity.token, self.reactor, self._on_messages, self._on_close
            )
        except OSError as error:
            raise SessionEndedError(
                f"no node agent answers at {self.agent_address} ({error.strerror}); "
                "start one with `kernel start --head`, or call init() without an address"
            ) from error
        self._connections.add(self.agent)
        self.agent.info = Peer(ProcessId(b"agent"), "agent", 0, self.agent_address, via=self.agent)
        self.send_hello(self.agent, pid_details)
        self.pump.start()
        answer: dict[str, Any] = self.call_agent("register")
        return answer

    def stop(self) -> None:
        """Close every connection and the loop."""
        self.closing = True
        if self in _joined:
            _joined.remove(self)
        self.flush()
        self.pump.stop()
        with self.lock:
            if self._listener is not None:
                self._listener.close()
            for connection in list(self._connections):
                connection.close("shutting down")
            self._fail_requests("the session was shut down")
        self.reactor.close()

    def abandon(self) -> None:
        """Leave the session in a forked child: it belongs to the parent, whose threads are not here."""
        self.closing = True
        self.lock = threading.RLock()  # the old one may be held by such a thread
        if self._listener is not None:
            self._listener.abandon()
        for connection in self._connections:
            connection.abandon()
        self.reactor.close()
        for function in self.on_forked:
            function()

    def send_hello(self, connection: Connection, details: dict[str, Any] | None = None) -> None:
        """Introduce this process on a new connection."""
        identity = self.identity
        connection.send((op.HELLO, self.id, identity.role, os.getpid(), self.address, PYTHON, details or {}))
        connection.flush()

    # -- sending ---------------------------------------------------------------------------------------------------

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

    def flush(self) -> None:
        """Write everything queued."""
        dirty = self._dirty
        while dirty:
            try:
                connection = dirty.pop()
            except KeyError:
                return
            connection.flush()

    def flush_soon(self) -> None:
        """Have everything queued written within milliseconds, by somebody."""
        self.pump.nudge()

    def peer(self, process: ProcessId, address: str) -> Connection:
        """Return the connection to `process`, made now if need be. Raises OSError when it is gone. Under the lock."""
        connection = self._peers.get(process)
        if connection is None or connection.closed:
            connection = connect(address, self.identity.token, self.reactor, self._on_messages, self._on_close)
            connection.info = Peer(process, "peer", 0, address, via=connection)
            self._peers[process] = connection
            self._connections.add(connection)
            self.send_hello(connection)
        return connection

    def peers(self) -> list[Connection]:
        """Return every open connection to a peer."""
        return list(self._peers.values())

    # -- requests --------------------------------------------------------------------------------------------------

    def request(self, connection: Connection, method: str, *arguments: Any) -> _Request:
        """Send a request; wait on the returned object. Under the lock or not."""
        with self.lock:
            request = self.expect_reply(connection)
            self.send(connection, (op.CALL, request.number, method, arguments))
        return request

    def expect_reply(self, connection: Connection) -> _Request:
        """Return a new pending request, whose number the caller puts into a message of its own. Under the lock."""
        number = next(self._request_numbers)
        request = self._requests[number] = _Request(number, connection)
        if connection.closed:
            request.fail(SessionEndedError(AGENT_GONE if connection is self.agent else "the connection is closed"))
        return request

    def result(self, request: _Request, timeout: float | None = None) -> Any:
        """Block for a request's answer and return it, or raise its error. Raises TimeoutError after `timeout` s."""
        deadline = None if timeout is None else self.reactor.clock() + timeout
        done = self.pump.wait(request, deadline)
        self._requests.pop(request.number, None)
        if not done:
            raise TimeoutError(f"no answer within {timeout} s")
        if request.error is not None:
            raise request.error
        return request.value

    def call_agent(self, method: str, *arguments: Any, timeout: float | None = None) -> Any:
        """Ask the node agent and return its answer."""
        if self.agent is None or self.agent.closed:
            raise SessionEndedError(AGENT_GONE)
        return self.result(self.request(self.agent, method, *arguments), timeout)

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
            for function in self.after_batch:
                function()
        if self.pending_interrupt is not None:
            self.raise_interrupt()

    def _introduce(self, connection: Connection, message: Message) -> bool:
        """Handle the first message of a connection; return whether it said who is there."""
        if not may_be_handled(message, (op.HELLO,)):
            connection.close("the peer did not introduce itself")
            return False
        try:
            self._hello(connection, message)
        except Exception as error:
            connection.close(f"the peer sent {message!r:.100}, which is no message: {error!r}")
        return connection.info is not None

    def _hello(self, connection: Connection, message: Message) -> None:
        _, process, role, pid, address, python, details = message
        if python != PYTHON:
            connection.close(f"the peer runs Python {python}, this process {PYTHON}: they must be the same")
            return
        connection.info = Peer(process, role, pid, address, details)
        self._connections.add(connection)
        connection.info.via = self._peers.setdefault(process, connection)

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

    def _reply(self, connection: Connection, message: Message) -> None:
        request = self._requests.pop(message[1], None)
        if request is None:
            return
        if message[0] == op.REPLY:
            request.value = message[2]
            request.complete()
        else:
            request.fail(pickle.loads(message[2]))

    def _on_close(self, connection: Connection, reason: str) -> None:
        with self.lock:
            if connection is self.agent and not self.closing:
                reason = AGENT_GONE
            self._dirty.discard(connection)
            self._connections.discard(connection)
            self._fail_requests(reason, connection)
            if self.closing:
                return
            if connection is self.agent:
                if self.on_agent_lost is not None:
                    self.on_agent_lost(reason)
                return
            peer = connection.info
            if peer is None:
                self.log.warning("connection refused", reason=reason)
            elif self._peers.get(peer.id) is connection:
                del self._peers[peer.id]
                for function in self.on_peer_lost:
                    function(peer, reason)
                for function in self.after_batch:
                    function()

    def _fail_requests(self, reason: str, connection: Connection | None = None) -> None:
        for number, request in list(self._requests.items()):
            if connection is None or request.connection is connection:
                del self._requests[number]
                request.fail(SessionEndedError(reason))

    # -- signals ---------------------------------------------------------------------------------------------------

    def install_interrupts(self) -> None:
        """Keep Ctrl-C from tearing state apart: while the main thread holds the lock, it waits."""
        if threading.current_thread() is threading.main_thread() and (
            signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            signal.signal(signal.SIGINT, lambda number, frame: self.interrupt(KeyboardInterrupt()))

    def interrupt(self, error: BaseException) -> None:
        """Raise `error` in this (the main) thread, now or as soon as it is not in the middle of something."""
        if self.lock._is_owned() or not self.pump.may_interrupt():  # type: ignore[attr-defined]
            self.pending_interrupt = error
            return
        raise error

    def raise_interrupt(self) -> None:
        """Raise what was kept back, if this is the main thread and the lock is free."""
        if (
            self.pending_interrupt is not None
            and threading.current_thread() is threading.main_thread()
            and not self.lock._is_owned()  # type: ignore[attr-defined]
        ):
            error, self.pending_interrupt = self.pending_interrupt, None
            raise error


class _Request(Waiter):
    """A question on its way."""

    __slots__ = ("connection", "error", "number", "value")

    def __init__(self, number: int, connection: Connection) -> None:
        super().__init__(1)
        self.number = number
        self.connection = connection
        self.value: Any = None
        self.error: Exception | None = None

    def fail(self, error: Exception) -> None:
        """End the wait with an error."""
        self.error = error
        self.complete()


_joined: list[Process] = []
"""The sessions this program is in."""


def _leave_in_child() -> None:
    """A forked child is in no session: only the process that joined may speak on its connections."""
    while _joined:
        _joined.pop().abandon()
    leave_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_in_child)

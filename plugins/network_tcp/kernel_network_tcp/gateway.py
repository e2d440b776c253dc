"""The one TCP port of a node: read which process a connection is for, and hand the accepted socket to that process.

A connection begins with a preamble (see `preamble`). One that begins otherwise speaks a foreign protocol, and is
spliced to a UNIX socket if there is one to splice to. Strangers get five seconds, and nothing of theirs is interpreted.
A connection that asks to be relayed is handed to `socket_relay`, which only the head's node has.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from kernel_engine.messages.named_messages import Message
from kernel_network_tcp.transport.admissions import MAXIMUM_STRANGERS, Admissions
from kernel_network_tcp.transport.credentials import Credentials
from kernel_network_tcp.transport.incoming import IncomingConnections
from kernel_network_tcp.transport.preamble import (
    CALLED_BACK,
    MAGIC,
    NO_TLS,
    NOT_HERE,
    RELAYED,
    TLS_NEEDED,
    WRONG_TOKEN,
    kind_of,
    needed,
    parse_preamble,
    parse_route,
    parse_ticket,
    refusal,
)
from kernel_network_tcp.transport.tcp_connection import RESUME_SECONDS
from kernel_processes.transport.accepted_connections import HANDSHAKE_SECONDS
from kernel_processes.transport.acceptor import Acceptor
from kernel_processes.transport.addresses import HEAD, format_host_and_port
from kernel_processes.transport.connection import Connection
from kernel_processes.transport.reactor import Reactor
from kernel_processes.transport.refusal_log import RefusalLog
from kernel_processes.transport.socket_receiver import SUFFIX, send_socket
from kernel_processes.transport.splice import Splice
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import ProtocolError

PASSING_SECONDS = 60.0
"""Seconds for which the gateway retries a process that takes no sockets, because it is busy or stopped."""
_AGAIN_SECONDS = 0.02
_MAXIMUM_SPLICES = 1024
_TLS_HELLO = b"\x16"
_SPEAKS_TLS = "a peer speaks TLS, which is off here: switch it on here too, or off there"
_SPEAKS_PLAINLY = "a peer speaks no TLS, which is on here: switch it on there too, or off here"
_PROCESS = re.compile(r"[0-9a-f]{16}")


@dataclass(slots=True)
class _IncomingSocket:
    """Holds a socket until enough bytes were read to know its target."""

    socket: socket.socket
    read: bytes = b""
    refused: bool = False
    """Whether a refusal was sent and may still be under way."""


class SocketRelay(Protocol):
    """Relays sockets for a gateway. It owns them from then on; they do not block."""

    def forward(self, sock: socket.socket, route: str) -> None:
        """Relay what a peer that has the token sends next to `route`."""

    def called_back(self, sock: socket.socket, ticket: bytes) -> None:
        """Take the socket of a peer that dialled back for `ticket`."""


class Gateway:
    """Listens on `host` and `port` (0: any that is free), in the loop of `reactor`; nowhere without a `host`.

    `sockets` is the directory of the socket receivers of this node's processes. `on_refused(reason)` is called for
    every connection that is not handed over. With `tls`, a peer that does not speak TLS is refused.
    Raises OSError when the address can't be listened on.
    """

    def __init__(
        self,
        host: str,
        port: int,
        token: bytes,
        reactor: Reactor,
        sockets: str,
        on_refused: Callable[[str], None],
        splice_to: str = "",
        tls: Credentials | None = None,
    ) -> None:
        self._token = token
        self._reactor = reactor
        self._sockets = sockets
        self._on_refused = RefusalLog(reactor, on_refused)
        self.splice_to = splice_to
        self._tls = tls
        self._targets: dict[str, IncomingConnections | Admissions] = {}
        self._arrivals: dict[int, _IncomingSocket] = {}  # By descriptor, the oldest first.
        self._passing = 0
        self._splices: set[Splice] = set()
        self._courier = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._courier.setblocking(False)
        self.socket_relay: SocketRelay | None = None
        self.host = host
        self.port: int = 0
        self._acceptor: Acceptor | None = None
        if host:
            listening = _listen(host, port)
            self.port = listening.getsockname()[1]
            self._acceptor = Acceptor(listening, reactor, self._expect, self._on_refused)

    @property
    def address(self) -> str:
        """The address at which it listens, as "HOST:PORT"."""
        return format_host_and_port(self.host, self.port)

    def serve_connections(
        self,
        target: str,
        on_messages: Callable[[Connection, list[Message]], None],
        on_close: Callable[[Connection, str], None],
        resume_seconds: float = RESUME_SECONDS,
    ) -> None:
        """Serve `target` in this loop: `on_messages` gets the messages of peers that have proved the token.

        A connection that is cut is lost after `resume_seconds`, unless its peer reconnects before.
        """
        self._targets[target] = IncomingConnections(
            self._token, self._tls, self._reactor, on_messages, on_close, self._on_refused, resume_seconds
        )

    def serve_sockets(self, target: str, on_socket: Callable[[socket.socket], None]) -> None:
        """Hand over connections to `target`, from the loop, as blocking sockets whose peers have proved the token."""

        def admitted(sock: socket.socket, rest: bytes) -> None:
            if rest:
                sock.close()
                self._on_refused(f"a peer of {target!r} did not wait for the end of the handshake")
            else:
                sock.setblocking(True)
                on_socket(sock)

        self._targets[target] = Admissions(self._token, self._tls, self._reactor, admitted, self._on_refused)

    def adopt(self, sock: socket.socket) -> None:
        """Take a connected socket as if it had been accepted: its preamble comes next."""
        self._expect(sock)

    def refuse(self, sock: socket.socket, answer: int, reason: str) -> None:
        """Send the peer the reason why it is not served (see `preamble`), and close its socket."""
        arrival = _IncomingSocket(sock)
        self._answer(arrival, answer)
        self._reactor.call_later(HANDSHAKE_SECONDS, lambda: self._expire(arrival))
        self._on_refused(reason)

    def close(self) -> None:
        """Stop listening, and close connections that are not handed over yet."""
        if self._acceptor is not None:
            self._acceptor.close()
        for arrival in list(self._arrivals.values()):
            self._forget(arrival)
            arrival.socket.close()
        for target in self._targets.values():
            target.close()
        for splice in list(self._splices):
            splice.close()
        self._courier.close()

    def abandon(self) -> None:
        """Let go of the sockets in a forked child; the parent goes on listening."""
        if self._acceptor is not None:
            self._acceptor.abandon()
        self._courier.close()
        for arrival in self._arrivals.values():
            arrival.socket.close()
        for target in self._targets.values():
            target.abandon()
        for splice in self._splices:
            splice.abandon()

    # -- arriving --------------------------------------------------------------------------------------------------

    def _expect(self, sock: socket.socket) -> None:
        if len(self._arrivals) >= MAXIMUM_STRANGERS:
            oldest = next(iter(self._arrivals.values()))
            self._refuse(oldest, "too many connections at once that did not say whom they are for")
        sock.setblocking(False)
        arrival = _IncomingSocket(sock)
        self._arrivals[sock.fileno()] = arrival
        self._reactor.register(sock.fileno(), lambda events: self._on_first_bytes(arrival))
        self._reactor.call_later(HANDSHAKE_SECONDS, lambda: self._expire(arrival))

    def _on_first_bytes(self, arrival: _IncomingSocket) -> None:
        try:
            data = arrival.socket.recv(needed(arrival.read) - len(arrival.read))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        arrival.read += data
        if not MAGIC.startswith(arrival.read[: len(MAGIC)]):
            self._forget(arrival)
            self._splice(arrival)
        elif not data:
            self._refuse(arrival, "a peer closed the connection before it said whom it is for")
        elif len(arrival.read) == needed(arrival.read):
            self._forget(arrival)
            self._dispatch(arrival)

    def _expire(self, arrival: _IncomingSocket) -> None:
        if self._arrivals.get(arrival.socket.fileno()) is arrival:
            self._refuse(arrival, "a peer did not say in time whom it is for")

    def _refuse(self, arrival: _IncomingSocket, reason: str) -> None:
        self._forget(arrival)
        arrival.socket.close()
        if not arrival.refused:
            self._on_refused(reason)

    def _forget(self, arrival: _IncomingSocket) -> None:
        fd = arrival.socket.fileno()
        if self._arrivals.get(fd) is arrival:
            del self._arrivals[fd]
            self._reactor.unregister(fd)

    # -- handing over ----------------------------------------------------------------------------------------------

    def _dispatch(self, arrival: _IncomingSocket) -> None:
        try:
            if kind_of(arrival.read) in (RELAYED, CALLED_BACK):
                self._cross(arrival)
                return
            target, secured = parse_preamble(arrival.read)
        except ProtocolError as error:
            self._refuse(arrival, str(error))
            return
        if secured and self._tls is None:
            self._answer(arrival, NO_TLS)
            self._on_refused(_SPEAKS_TLS)
        elif self._tls is not None and not secured:
            self._answer(arrival, TLS_NEEDED)
            self._on_refused(_SPEAKS_PLAINLY)
        elif target in self._targets:
            self._targets[target].adopt(arrival.socket)
        elif _PROCESS.fullmatch(target) or target == HEAD:
            self._pass(arrival, target, self._reactor.clock() + PASSING_SECONDS)
        else:
            self._answer(arrival, NOT_HERE)
            self._on_refused(f"a peer asked for {target!r}, which is not here")

    def _cross(self, arrival: _IncomingSocket) -> None:
        """Hand a connection that asks to be relayed, or dials back, to the relay."""
        if self.socket_relay is None:
            self.refuse(
                arrival.socket, NOT_HERE, "a peer asked to be relayed, which the node beside the head does alone"
            )
        elif kind_of(arrival.read) == CALLED_BACK:
            self.socket_relay.called_back(arrival.socket, parse_ticket(arrival.read))
        else:
            try:
                route = parse_route(arrival.read, self._token)
            except ProtocolError as error:
                self.refuse(arrival.socket, WRONG_TOKEN, str(error))
            else:
                self.socket_relay.forward(arrival.socket, route)

    def _pass(self, arrival: _IncomingSocket, target: str, deadline: float) -> None:
        try:
            send_socket(self._courier, arrival.socket, os.path.join(self._sockets, target + SUFFIX))
        except (FileNotFoundError, ConnectionRefusedError):
            self._answer(arrival, NOT_HERE)
            if target != HEAD:
                self._on_refused(f"a peer asked for process {target}, which is not here")
            elif not self.splice_to:  # Otherwise it is away and restarts soon: nodes keep asking.
                self._on_refused("a peer asked for the head, which is not here")
        except OSError as error:
            late = self._reactor.clock() >= deadline or self._passing >= MAXIMUM_STRANGERS
            if late or self._courier.fileno() < 0:
                self._refuse(arrival, f"a connection can't be passed to process {target}: {error.strerror}")
                return
            self._passing += 1
            self._reactor.call_later(_AGAIN_SECONDS, lambda: self._pass_again(arrival, target, deadline))
        else:
            arrival.socket.close()

    def _pass_again(self, arrival: _IncomingSocket, target: str, deadline: float) -> None:
        self._passing -= 1
        self._pass(arrival, target, deadline)

    def _answer(self, arrival: _IncomingSocket, reason: int) -> None:
        """Send the refusal, and read on until it has arrived: closing at once could discard it."""
        with suppress(OSError):
            arrival.socket.send(refusal(reason))
            arrival.socket.shutdown(socket.SHUT_WR)
        arrival.refused = True
        self._arrivals[arrival.socket.fileno()] = arrival
        self._reactor.register(arrival.socket.fileno(), lambda events: self._drain(arrival))

    def _drain(self, arrival: _IncomingSocket) -> None:
        try:
            data = arrival.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._refuse(arrival, "")

    def _splice(self, arrival: _IncomingSocket) -> None:
        if not self.splice_to:
            self._refuse(arrival, "a peer does not speak this protocol")
        elif arrival.read.startswith(_TLS_HELLO) and self._tls is None:
            self._refuse(arrival, _SPEAKS_TLS)
        elif self._tls is not None and not arrival.read.startswith(_TLS_HELLO):
            self._refuse(arrival, _SPEAKS_PLAINLY)
        elif len(self._splices) >= _MAXIMUM_SPLICES:
            self._refuse(arrival, "too many connections at once to the control plane")
        else:
            inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            inner.setblocking(False)
            try:
                inner.connect(self.splice_to)
            except OSError as error:
                inner.close()
                self._refuse(arrival, f"the control plane does not answer: {error.strerror}")
                return
            splice = Splice(arrival.socket, inner, arrival.read, self._reactor, self._splices.discard)
            self._splices.add(splice)


def _listen(host: str, port: int) -> socket.socket:
    family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    sock = socket.socket(family, kind | socket.SOCK_CLOEXEC)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(place)
        sock.listen(1024)
    except OSError:
        sock.close()
        raise
    return sock

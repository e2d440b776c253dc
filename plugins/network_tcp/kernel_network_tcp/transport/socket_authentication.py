"""Prove the token over one TCP socket, in the loop, on either side; and set the options of TCP sockets."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from enum import Enum

from kernel_network_tcp.transport.credentials import Credentials
from kernel_network_tcp.transport.preamble import WRONG_TOKEN, refusal, refusal_of
from kernel_processes.transport.authentication import Handshake
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import ProtocolError

_CHUNK = 4096
_OPTIONS = {  # An unplugged machine is noticed within 15 seconds, with or without data to send.
    "TCP_KEEPIDLE": 5,
    "TCP_KEEPINTVL": 3,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 15_000,  # milliseconds
}


def tune(sock: socket.socket) -> None:
    """Have a TCP socket send at once, and notice a peer that has vanished."""
    with suppress(OSError):  # It may be broken already, which shows when it is read.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _OPTIONS.items():
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class ConnectFailure(Enum):
    """Says why a connection could not be established."""

    UNREACHABLE = "unreachable"
    """No machine answers there."""
    CLOSED = "closed"
    """The machine answers that nothing listens there."""
    CUT = "cut"
    """A peer answered, and the connection broke before both sides were authenticated."""
    REFUSED = "refused"
    """One side refused the other: there is no use in trying again."""


_FAILURES = {
    errno.EPROTO: ConnectFailure.REFUSED,
    errno.EHOSTUNREACH: ConnectFailure.UNREACHABLE,
    errno.ECONNREFUSED: ConnectFailure.CLOSED,
}


class SocketAuthentication:
    """Runs one side of a handshake over a connected socket, in TLS if there is a `tls`, from `begin` on.

    It owns the socket until one of two functions is called, once, from the loop: `on_done(socket, rest)` with the
    socket (not blocking, not registered) and the bytes after the handshake, or `on_failed(reason, failure)` with the
    socket closed. `greeting` is sent right after the handshake, and `wanted` is the number of bytes to wait for.
    """

    def __init__(
        self,
        sock: socket.socket,
        reactor: Reactor,
        handshake: Handshake,
        tls: Credentials | None,
        on_done: Callable[[socket.socket, bytes], None],
        on_failed: Callable[[str, ConnectFailure], None],
        greeting: bytes = b"",
        wanted: int = 0,
    ) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._reactor = reactor
        self._handshake = handshake
        self._tls = tls
        self._on_done = on_done
        self._on_failed = on_failed
        self._greeting = greeting
        self._wanted = wanted

    def begin(self) -> None:
        """Send the first bytes, if it is this side that begins. From the loop."""
        if self._tls is None:
            self._reactor.register(self._socket.fileno(), self._on_ready)
            self._send(self._handshake.start())
            return
        try:
            self._socket = self._tls.wrap(self._socket, self._handshake.server)
        except (OSError, ValueError) as error:
            self.fail(f"TLS can't begin: {getattr(error, 'strerror', None) or error}", ConnectFailure.REFUSED)
            return
        self._reactor.register(self._socket.fileno(), self._on_tls_ready)
        self._on_tls_ready(0)

    def cancel(self) -> None:
        """Close the socket, without calling back."""
        if self._socket.fileno() >= 0:
            self._reactor.unregister(self._socket.fileno())
            self._socket.close()

    def fail(self, reason: str, failure: ConnectFailure) -> None:
        """Close the socket and report `reason`."""
        self.cancel()
        self._on_failed(reason, failure)

    def abandon(self) -> None:
        """Let go of the socket in a forked child."""
        self._socket.close()

    def _on_tls_ready(self, events: int) -> None:
        from kernel_network_tcp.transport.tls_socket import secure

        fd = self._socket.fileno()
        try:
            waits_for = secure(self._socket)
        except OSError as error:
            self.fail(error.strerror or str(error), _kind(error))
            return
        if waits_for:
            self._reactor.watch_writes(fd, waits_for == "write")
        else:
            self._reactor.unregister(fd)
            self._reactor.register(fd, self._on_ready)
            self._send(self._handshake.start())

    def _on_ready(self, events: int) -> None:
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            self.fail(f"the connection broke during the handshake: {error.strerror}", _kind(error))
            return
        if not data:
            self.fail("the peer closed the connection during the handshake", ConnectFailure.CUT)
        elif (refused := refusal_of(data)) is not None:
            self.fail(refused.strerror or "", _kind(refused))
        else:
            self._feed(data)

    def _feed(self, data: bytes) -> None:
        try:
            self._send(self._handshake.feed(data))
        except ProtocolError as error:
            if self._handshake.server:
                self._send(refusal(WRONG_TOKEN))
            self.fail(str(error), ConnectFailure.REFUSED)
            return
        if not self._handshake.done:
            return
        self._send(self._greeting)
        self._greeting = b""
        rest = self._handshake.rest()
        if len(rest) >= self._wanted:
            self._reactor.unregister(self._socket.fileno())
            self._on_done(self._socket, rest)

    def _send(self, data: bytes) -> None:
        if data:
            with suppress(OSError):  # So few bytes always fit. The reading side learns of the end.
                self._socket.send(data)


def _kind(error: OSError) -> ConnectFailure:
    return _FAILURES.get(error.errno or 0, ConnectFailure.CUT)

"""Keep a TCP connection alive at the client's side: dial, and dial again after each cut."""

from __future__ import annotations

import socket

from kernel_network_tcp.transport import control_frames as words
from kernel_network_tcp.transport.credentials import Credentials
from kernel_network_tcp.transport.socket_authentication import ConnectFailure
from kernel_network_tcp.transport.tcp_connection import TcpConnection
from kernel_network_tcp.transport.tcp_dialler import TcpDialler
from kernel_processes.transport.addresses import TcpAddress
from kernel_processes.transport.reactor import Reactor

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
"""Seconds between attempts: at first, and at most. Each pause is twice the one before."""
_AGAIN_SECONDS = 2.0
"""Seconds for one attempt to resume. TCP alone would retry ever more rarely while the network is down."""


class Reconnector:
    """Gives `connection` a socket to `address`, and another whenever it is cut, until it is closed."""

    def __init__(
        self,
        connection: TcpConnection,
        address: TcpAddress,
        token: bytes,
        tls: Credentials | None,
        reactor: Reactor,
        seconds: float,
    ) -> None:
        self._connection = connection
        self._address = address
        self._token = token
        self._tls = tls
        self._reactor = reactor
        self._seconds = seconds
        self._until = reactor.clock() + seconds
        self._name = words.new_connection()
        self._greeted = False
        self._pause = _FIRST_PAUSE
        self._dialler: TcpDialler | None = None
        connection.on_cut = self._dial
        connection.on_end = self._cancel
        self._dial()

    def _dial(self) -> None:
        if self._connection.closed or self._connection.fd >= 0:
            return
        greeting = words.Greeting(
            self._connection.fresh, self._name, self._connection.received, bool(self._address.route)
        )
        dialler = self._dialler = TcpDialler(
            self._address,
            self._token,
            self._tls,
            self._reactor,
            self._connected,
            self._failed,
            min(self._seconds, _AGAIN_SECONDS) if self._greeted else self._seconds,
            greeting.pack(),
            words.CONTROL.size if self._greeted else 0,
        )
        dialler.begin()

    def _connected(self, sock: socket.socket, rest: bytes) -> None:
        self._dialler = None
        self._pause = _FIRST_PAUSE
        if not self._greeted:  # Nothing was sent yet, so it need not wait for the answer.
            self._greeted = True
            self._connection.attach(sock, 0, rest)
            return
        word, received = words.CONTROL.unpack_from(rest)
        if word == words.WELCOME:
            self._connection.fresh = False
            self._connection.attach(sock, received, rest[words.CONTROL.size :])
        else:
            sock.close()
            self._connection.give_up("the peer has given up this connection")

    def _failed(self, reason: str, failure: ConnectFailure) -> None:
        """Try again where that may help: once connected, unless refused; before that, only after a cut handshake."""
        self._dialler = None
        hopeless = failure is ConnectFailure.REFUSED or (not self._greeted and failure is not ConnectFailure.CUT)
        if hopeless or (not self._greeted and self._reactor.clock() >= self._until):
            self._connection.close(reason)
            return
        if failure is ConnectFailure.CLOSED:
            self._connection.hasten(reason)
        self._reactor.call_later(self._pause, self._dial)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _cancel(self) -> None:
        if self._dialler is not None:
            self._dialler.cancel()

"""Connect to a `tcp://` address without blocking the loop: dial, name the target, prove the token."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress

from kernel_network_tcp.transport.credentials import Credentials
from kernel_network_tcp.transport.host_connector import HostConnector
from kernel_network_tcp.transport.preamble import opening
from kernel_network_tcp.transport.socket_authentication import ConnectFailure, SocketAuthentication
from kernel_processes.transport.addresses import TcpAddress
from kernel_processes.transport.authentication import Handshake
from kernel_processes.transport.reactor import Reactor

CONNECT_SECONDS = 5.0
"""Seconds for the name service and the other machine to answer."""
PROOF_SECONDS = 60.0
"""Seconds for the target to prove the token after its machine has answered; it may be busy."""


class TcpDialler:
    """Makes one attempt to reach `address`, from `begin` on.

    `on_done(socket, rest)` or `on_failed(reason, failure)` is called once, from the loop, which may be that of another
    thread; neither is called after `cancel`. For `greeting` and `wanted` see `SocketAuthentication`.
    """

    def __init__(
        self,
        address: TcpAddress,
        token: bytes,
        tls: Credentials | None,
        reactor: Reactor,
        on_done: Callable[[socket.socket, bytes], None],
        on_failed: Callable[[str, ConnectFailure], None],
        seconds: float,
        greeting: bytes,
        wanted: int,
    ) -> None:
        self._address = address
        self._token = token
        self._tls = tls
        self._reactor = reactor
        self._on_done = on_done
        self._on_failed = on_failed
        self._greeting = greeting
        self._wanted = wanted
        self._authentication: SocketAuthentication | None = None
        self._over = False
        self._connector = HostConnector(
            address.host, address.port, reactor, self._on_connected, self._unconnected, seconds
        )

    def begin(self) -> None:
        """Begin to connect; then the token is proved."""
        self._connector.begin()

    def cancel(self) -> None:
        """Give up, without calling back."""
        self._over = True
        self._connector.cancel()
        if self._authentication is not None:
            self._authentication.cancel()

    def _on_connected(self, sock: socket.socket) -> None:
        with suppress(OSError):  # A broken socket shows when it is read.
            sock.send(opening(self._address, self._tls is not None, self._token))
        handshake = Handshake(self._token, server=False)
        self._authentication = SocketAuthentication(
            sock, self._reactor, handshake, self._tls, self._finish, self._fail, self._greeting, self._wanted
        )
        self._reactor.call_later(PROOF_SECONDS, self._expire_proof)
        self._authentication.begin()

    def _unconnected(self, reason: str, failure: ConnectFailure) -> None:
        """Report a failed connect. A relay that does not answer says nothing about the target behind it."""
        self._fail(reason, ConnectFailure.UNREACHABLE if self._address.route else failure)

    def _finish(self, sock: socket.socket, rest: bytes) -> None:
        self._over = True
        self._on_done(sock, rest)

    def _fail(self, reason: str, failure: ConnectFailure) -> None:
        if not self._over:
            self.cancel()
            self._on_failed(f"no connection to {self._address}: {reason}", failure)

    def _expire_proof(self) -> None:
        self._fail(f"the target did not prove the session token within {PROOF_SECONDS:g} s", ConnectFailure.CUT)

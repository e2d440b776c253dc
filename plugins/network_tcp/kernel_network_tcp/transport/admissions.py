"""Authenticate accepted TCP sockets. A peer without the token is logged and disconnected."""

from __future__ import annotations

import socket
from collections.abc import Callable

from kernel_network_tcp.transport.credentials import Credentials
from kernel_network_tcp.transport.socket_authentication import ConnectFailure, SocketAuthentication, tune
from kernel_processes.transport.authentication import Handshake
from kernel_processes.transport.reactor import Reactor

PROOF_SECONDS = 15.0
"""Seconds for a peer to prove the token before it is disconnected."""
MAXIMUM_STRANGERS = 256
"""Maximum number of unauthenticated peers. Beyond it, the peer that was silent longest is dropped.

So a flood of connections locks no honest peer out.
"""


class Admissions:
    """Hands over each adopted socket when its peer has proved the token: `on_admitted(socket, rest)`.

    `rest` are the bytes after the handshake, at least the `greeting_bytes` that are waited for.
    """

    def __init__(
        self,
        token: bytes,
        tls: Credentials | None,
        reactor: Reactor,
        on_admitted: Callable[[socket.socket, bytes], None],
        on_refused: Callable[[str], None],
        greeting_bytes: int = 0,
    ) -> None:
        self._token = token
        self._tls = tls
        self._reactor = reactor
        self._on_admitted = on_admitted
        self._on_refused = on_refused
        self._greeting_bytes = greeting_bytes
        self._strangers: dict[int, SocketAuthentication] = {}  # The oldest first.
        self._number = 0

    def adopt(self, sock: socket.socket) -> None:
        """Take a connected socket, whose preamble was read, and begin the handshake."""
        if len(self._strangers) >= MAXIMUM_STRANGERS:
            oldest = next(iter(self._strangers.values()))
            oldest.fail("too many connections at once that did not prove the session token", ConnectFailure.CUT)
        tune(sock)
        self._number = number = self._number + 1
        authentication = self._strangers[number] = SocketAuthentication(
            sock,
            self._reactor,
            Handshake(self._token, server=True),
            self._tls,
            lambda sock, rest: self._admit(number, sock, rest),
            lambda reason, failure: self._refuse(number, reason),
            wanted=self._greeting_bytes,
        )
        self._reactor.call_later(PROOF_SECONDS, lambda: self._expire(number))
        authentication.begin()

    def close(self) -> None:
        """Disconnect all peers that have not proved the token yet."""
        while self._strangers:
            self._strangers.popitem()[1].cancel()

    def abandon(self) -> None:
        """Let go of the sockets in a forked child."""
        for authentication in self._strangers.values():
            authentication.abandon()

    def _admit(self, number: int, sock: socket.socket, rest: bytes) -> None:
        del self._strangers[number]
        self._on_admitted(sock, rest)

    def _refuse(self, number: int, reason: str) -> None:
        del self._strangers[number]
        self._on_refused(reason)

    def _expire(self, number: int) -> None:
        if (authentication := self._strangers.get(number)) is not None:
            authentication.fail("the peer did not prove the session token in time", ConnectFailure.CUT)

"""Find out whether a peer whose connection was cut has ended.

When a process with unread data is killed, the system resets its sockets, exactly as a failing network does. A peer
that lives dials again. If its machine reports that nothing listens at its gateway, the peer has ended.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from kernel_network_tcp.transport.host_connector import HostConnector
from kernel_network_tcp.transport.socket_authentication import ConnectFailure
from kernel_processes.transport.addresses import parse_host_and_port
from kernel_processes.transport.reactor import Reactor

FIRST_SECONDS, LATER_SECONDS = 0.02, 0.25
"""Seconds from a cut to the first dial of the gateway, and between later ones: sockets are not closed at once."""
ANSWER_SECONDS = 5.0


class PlaceProbe:
    """Dials `place` ("HOST:PORT") repeatedly while `is_cut()`, from each call of `begin` on.

    `on_closed(reason)` is called once nothing listens there any more.
    """

    def __init__(
        self, place: str, reactor: Reactor, is_cut: Callable[[], bool], on_closed: Callable[[str], None]
    ) -> None:
        self._place = place
        self._reactor = reactor
        self._is_cut = is_cut
        self._on_closed = on_closed

    def begin(self) -> None:
        """Dial soon, because of a cut."""
        self._ask_later(FIRST_SECONDS)

    def _ask_later(self, seconds: float) -> None:
        self._reactor.call_later(seconds, self._ask)

    def _ask(self) -> None:
        if self._is_cut():
            host, port = parse_host_and_port(self._place)
            HostConnector(host, port, self._reactor, self._answered, self._failed, ANSWER_SECONDS).begin()

    def _answered(self, sock: socket.socket) -> None:
        sock.close()
        self._ask_later(LATER_SECONDS)

    def _failed(self, reason: str, failure: ConnectFailure) -> None:
        if failure is ConnectFailure.CLOSED:
            self._on_closed(f"nothing listens at {self._place} any more")
        else:
            self._ask_later(LATER_SECONDS)

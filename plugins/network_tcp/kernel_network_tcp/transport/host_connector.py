"""Connect to a host without blocking the loop: look its name up, and try each of its addresses."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

from kernel_network_tcp.transport.socket_authentication import ConnectFailure, tune
from kernel_processes.transport.poller import WRITE
from kernel_processes.transport.reactor import Reactor

Place = tuple[int, tuple[Any, ...]]
"""An address family and an address in it."""


class HostConnector:
    """Makes one attempt to connect to `host` and `port`, within `seconds`, from `begin` on.

    `on_connected(socket)` or `on_failed(reason, failure)` is called once, from the loop, which may be that of another
    thread; neither is called after `cancel`.
    """

    def __init__(
        self,
        host: str,
        port: int,
        reactor: Reactor,
        on_connected: Callable[[socket.socket], None],
        on_failed: Callable[[str, ConnectFailure], None],
        seconds: float,
    ) -> None:
        self._host = host
        self._port = port
        self._reactor = reactor
        self._on_connected = on_connected
        self._on_failed = on_failed
        self._seconds = seconds
        self._places: list[Place] = []
        self._socket: socket.socket | None = None
        self._over = False

    def begin(self) -> HostConnector:
        """Look up, and connect."""
        self._reactor.call_later(self._seconds, self._expire)
        if (place := numeric_place(self._host, self._port)) is not None:
            self._go_to([place])
        else:
            threading.Thread(target=self._look_up, name="look-up", daemon=True).start()
        return self

    def cancel(self) -> None:
        """Give up, without calling back."""
        self._over = True
        self._drop_socket()

    def _look_up(self) -> None:
        """Find the host, in a thread of its own: the name service may take its time."""
        try:
            places = look_up(self._host, self._port)
        except OSError as error:
            reason = f"the name {self._host!r} can't be looked up: {error.strerror}"
            self._soon(lambda: self._fail(reason, ConnectFailure.UNREACHABLE))
        else:
            self._soon(lambda: self._go_to(places))

    def _soon(self, function: Callable[[], None]) -> None:
        self._reactor.call_later(0, function)
        self._reactor.wake()

    def _go_to(self, places: list[Place]) -> None:
        if not self._over:
            self._places = places
            self._try_next(errno.EADDRNOTAVAIL)

    def _try_next(self, number: int) -> None:
        """Connect to the next place; `number` says why the one before could not be reached."""
        self._drop_socket()
        if not self._places:
            reason = f"it can't be reached: {os.strerror(number)}"
            failure = ConnectFailure.CLOSED if number == errno.ECONNREFUSED else ConnectFailure.UNREACHABLE
            self._soon(lambda: self._fail(reason, failure))
            return
        family, place = self._places.pop(0)
        try:
            sock = self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            sock.setblocking(False)
            number = sock.connect_ex(place)
        except OSError as error:
            number = error.errno or errno.EINVAL
        if number in (0, errno.EINPROGRESS):
            self._reactor.register(sock.fileno(), self._on_ready, WRITE)
        else:
            self._try_next(number)

    def _on_ready(self, events: int) -> None:
        sock = self._socket
        assert sock is not None
        if number := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._try_next(number)
            return
        try:
            sock.getpeername()
        except OSError:
            return  # Not yet: the event was for an earlier socket with this number.
        self._reactor.unregister(sock.fileno())
        self._socket = None
        self._over = True
        tune(sock)
        self._on_connected(sock)

    def _fail(self, reason: str, failure: ConnectFailure) -> None:
        if not self._over:
            self.cancel()
            self._on_failed(reason, failure)

    def _expire(self) -> None:
        self._fail(f"there was no answer within {self._seconds:g} s", ConnectFailure.UNREACHABLE)

    def _drop_socket(self) -> None:
        if self._socket is not None:
            self._reactor.unregister(self._socket.fileno())
            self._socket.close()
            self._socket = None


def numeric_place(host: str, port: int) -> Place | None:
    """Return where a host given by its number is, or None when it is a name, which has to be looked up."""
    try:
        return _places(host, port, socket.AI_NUMERICHOST)[0]
    except OSError:
        return None


def look_up(host: str, port: int) -> list[Place]:
    """Return where `host` may be, the likeliest place first. May take seconds; raises OSError when nowhere."""
    return _places(host, port, 0)


def _places(host: str, port: int, flags: int) -> list[Place]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(int(family), place) for family, _, _, _, place in found]

"""Accept sockets from a listening socket, in the loop, and pause while there are no descriptors left."""

from __future__ import annotations

import socket
from collections.abc import Callable

from kernel_processes.transport.reactor import Reactor

PAUSE_SECONDS = 0.5
"""Seconds without accepting after a failure, usually for lack of descriptors."""
_AT_ONCE = 64
"""Maximum number of sockets that are accepted in one turn of the loop."""


class Acceptor:
    """Calls `on_accepted(sock)` for each accepted socket, and `on_refused(reason)` when accepting fails."""

    def __init__(
        self,
        listening: socket.socket,
        reactor: Reactor,
        on_accepted: Callable[[socket.socket], None],
        on_refused: Callable[[str], None],
    ) -> None:
        self._socket = listening
        self._reactor = reactor
        self._on_accepted = on_accepted
        self._on_refused = on_refused
        self._failing = False
        listening.setblocking(False)
        reactor.register(listening.fileno(), self._accept)

    def close(self) -> None:
        """Stop listening."""
        self._reactor.unregister(self._socket.fileno())
        self._socket.close()

    def abandon(self) -> None:
        """Close the socket in a forked child; the parent goes on listening."""
        self._socket.close()

    def _accept(self, events: int) -> None:
        for _ in range(_AT_ONCE):
            try:
                sock, _ = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                self._pause(error)
                return
            self._failing = False
            self._on_accepted(sock)

    def _pause(self, error: OSError) -> None:
        """Stop accepting for a moment: the listening socket stays ready, and the loop would spin."""
        if not self._failing:
            self._failing = True
            self._on_refused(f"connections can't be accepted, and wait: {error.strerror}")
        self._reactor.unregister(self._socket.fileno())
        self._reactor.call_later(PAUSE_SECONDS, self._go_on)

    def _go_on(self) -> None:
        if self._socket.fileno() >= 0:
            self._reactor.register(self._socket.fileno(), self._accept)

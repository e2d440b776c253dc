"""Keep connections to the transfer services of other nodes for the next chunk. Any thread may use them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from kernel_network_tcp.transfer.sockets import prepare


class Connections:
    """Keeps connections for reuse. `connect(address)` makes a socket that has proved the token; it may block.

    It may raise any error. A socket that is taken belongs to its taker until it is given back or closed.
    """

    def __init__(
        self, connect: Callable[[str], socket.socket], stall_seconds: float, clock: Callable[[], float]
    ) -> None:
        self._connect = connect
        self._stall_seconds = stall_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: dict[str, list[tuple[float, socket.socket]]] = {}
        self._postponed: dict[str, bytes] = {}
        self._closed = False

    def take(self, address: str) -> socket.socket | None:
        """Return an idle connection to `address`, if there is one."""
        with self._lock:
            idle = self._idle.get(address)
            if not idle:
                return None
            sock = idle.pop()[1]
            if not idle:
                del self._idle[address]
            return sock

    def make(self, address: str) -> socket.socket:
        """Return a new connection to `address`. Raises what `connect` raises."""
        sock = self._connect(address)
        prepare(sock, self._stall_seconds)
        return sock

    def give_back(self, address: str, sock: socket.socket) -> None:
        """Keep a connection on which nothing is on its way."""
        with self._lock:
            if not self._closed:
                self._idle.setdefault(address, []).append((self._clock(), sock))
                return
        sock.close()

    def postpone(self, address: str, data: bytes) -> None:
        """Have `data` sent before the next request to an address. Should there be none, it is never sent."""
        with self._lock:
            self._postponed[address] = self._postponed.get(address, b"") + data

    def postponed(self, address: str) -> bytes:
        """Return what was to be sent to an address; the caller sends it."""
        with self._lock:
            return self._postponed.pop(address, b"")

    def forget(self, address: str) -> None:
        """Close the idle connections to an address, which seems to have gone away."""
        with self._lock:
            self._postponed.pop(address, None)
            gone = self._idle.pop(address, [])
        for _, sock in gone:
            sock.close()

    def close_idle(self, seconds: float) -> bool:
        """Close what was idle for `seconds`; return whether any are left."""
        before = self._clock() - seconds
        old = []
        with self._lock:
            for address, idle in list(self._idle.items()):
                old += [sock for since, sock in idle if since <= before]
                kept = [(since, sock) for since, sock in idle if since > before]
                if kept:
                    self._idle[address] = kept
                else:
                    del self._idle[address]
            left = bool(self._idle)
        for sock in old:
            sock.close()
        return left

    def close(self) -> None:
        """Close what is idle, and from now on what is given back."""
        with self._lock:
            self._closed = True
        self.close_idle(0.0)

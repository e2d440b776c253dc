"""The network between the nodes of a cluster on one machine, as something that fails.

Every node tells the others a place where this module listens. What arrives there it passes on to the node, piece by
piece, in threads of the program that made the cluster, and on the way it can be held, lost, delayed or slowed: for each
pair of nodes, and each direction, alone. It needs no privileges.
"""

from __future__ import annotations

import itertools
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from kernel_processes.transport.addresses import format_host_and_port
from kernel_spec.dataclass import dataclass
from kernel_testing.socket_owners import directories_behind

INSIDE, OUTSIDE = "127.0.0.1", "127.0.0.2"
"""Nodes listen at the one, and tell others to come to the other."""
_PIECE_BYTES = 256 << 10
_ATTEMPTS = 50
_RESET = struct.pack("ii", 1, 0)
"""As time to linger: closing breaks the connection."""


@dataclass(frozen=True, slots=True)
class Weather:
    """How one direction between two nodes behaves.

    `held`: nothing arrives, and nobody learns of it; what was sent waits, as TCP has it. `loses`: what is sent is gone,
    and its connection is broken later (`FaultyNetwork.heal`). Each piece (up to 256 KB) takes `delay_seconds`, and all
    of them together do `bytes_per_second`, 0 for any number.
    """

    held: bool = False
    loses: bool = False
    delay_seconds: float = 0.0
    bytes_per_second: float = 0.0


FINE = Weather()


class Wire:
    """One direction between two nodes, for all connections between them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._closed = False
        self._weather = FINE
        self._free_at = 0.0

    def set(self, weather: Weather) -> None:
        """Behave like that from now on."""
        with self._changed:
            self._weather = weather
            self._changed.notify_all()

    def close(self) -> None:
        """Hold nobody back any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def carry(self, size: int) -> bool:
        """Return when `size` bytes have come to the other end, and whether they have."""
        with self._changed:
            due = time.monotonic() + self._weather.delay_seconds
            if self._weather.bytes_per_second:
                self._free_at = max(time.monotonic(), self._free_at) + size / self._weather.bytes_per_second
                due = max(due, self._free_at)
            while not self._closed:
                left = due - time.monotonic()
                if self._weather.held:
                    self._changed.wait()
                elif self._weather.loses:
                    return False
                elif left > 0:
                    self._changed.wait(left)
                else:
                    return True
        return False


class Link:
    """One connection from one node, the `caller`, to another, the `callee`; each is the directory of its session.

    `wire(link, onward)` gives the wire that is to be used now, on the way from the caller (`onward`) or back.
    """

    def __init__(self, near: socket.socket, callee: str, wire: Callable[[Link, bool], Wire]) -> None:
        self.caller = ""
        self.callee = callee
        self.port: int = near.getpeername()[1]
        self.damaged = False
        self._wire = wire
        self._near = near
        self._far: socket.socket | None = None

    def serve(self, place: tuple[str, int]) -> None:
        """Connect to the callee, at `place`, and pass on what both ends say until both have ended."""
        try:
            far = self._far = socket.create_connection(place)
        except OSError:
            self._wire(self, True).carry(0)
            self.reset()
            self._near.close()
            return
        for sock in (self._near, far):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=self._pass_on, args=(far, self._near, False), name="network", daemon=True)
        back.start()
        self._pass_on(self._near, far, True)
        back.join()
        for sock in (self._near, far):
            sock.close()

    def reset(self) -> None:
        """Break the connection at both ends, as a machine on the way would that has forgotten it."""
        for sock in (self._near, self._far):
            if sock is not None:
                with suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    sock.shutdown(socket.SHUT_RDWR)  # wakes who reads it

    def _pass_on(self, source: socket.socket, sink: socket.socket, onward: bool) -> None:
        try:
            while data := source.recv(_PIECE_BYTES):
                if not self._wire(self, onward).carry(len(data)):
                    self.damaged = True
                elif self.damaged:
                    break
                else:
                    sink.sendall(data)
            self._wire(self, onward).carry(0)  # from who can't be heard, no end is heard either
            if not self.damaged:
                sink.shutdown(socket.SHUT_WR)
                return
        except OSError:
            self._wire(self, onward).carry(0)
        self.reset()


class FaultyNetwork:
    """Every connection between nodes. A node is named by the directory of its session."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[str, socket.socket] = {}
        self._threads: list[threading.Thread] = []
        self._links: set[Link] = set()
        self._wires: dict[tuple[str, str], Wire] = {}
        self._fine = Wire()
        self._closed = False

    def add(self, directory: str) -> tuple[str, str]:
        """Make room for a node; return where it must listen, and what it must tell others ("HOST:PORT" each)."""
        for attempt in itertools.count(1):
            outside = socket.create_server((OUTSIDE, 0), backlog=1024)
            port = outside.getsockname()[1]
            try:
                socket.create_server((INSIDE, port)).close()
                break
            except OSError:
                outside.close()
                if attempt == _ATTEMPTS:
                    raise
        self._listeners[directory] = outside
        self._run(lambda: self._accept(outside, directory))
        return format_host_and_port(INSIDE, port), format_host_and_port(OUTSIDE, port)

    def set(self, pairs: Iterable[tuple[str, str]], weather: Weather) -> None:
        """Have the direction of each pair, from the first to the second, behave like that."""
        with self._lock:
            wires = [self._wires.setdefault(pair, Wire()) for pair in pairs]
        self._identify()
        for wire in wires:
            wire.set(weather)

    def heal(self) -> None:
        """Let everything pass again, and break the connections that have lost something."""
        with self._lock:
            wires, self._wires = self._wires, {}
            damaged = [link for link in self._links if link.damaged]
        for wire in wires.values():
            wire.set(FINE)
        for link in damaged:
            link.reset()

    def reset(self, pairs: Iterable[tuple[str, str]]) -> int:
        """Break every connection between these nodes; return how many there were."""
        self._identify()
        both = {frozenset(pair) for pair in pairs}
        with self._lock:
            broken = [link for link in self._links if frozenset((link.caller, link.callee)) in both]
        for link in broken:
            link.reset()
        return len(broken)

    def close(self) -> None:
        """Break everything, and wait for the threads."""
        self._closed = True
        for sock in self._listeners.values():
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)  # wakes who accepts
        with self._lock:
            wires, links = [*self._wires.values(), self._fine], list(self._links)
        for wire in wires:
            wire.close()
        for link in links:
            link.reset()
        while threads := self._threads.copy():
            for thread in threads:
                thread.join()
            with self._lock:
                self._threads = [thread for thread in self._threads if thread.is_alive()]
        for sock in self._listeners.values():
            sock.close()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _run(self, function: Callable[[], None]) -> None:
        thread = threading.Thread(target=function, name="network", daemon=True)
        with self._lock:
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            thread.start()
            self._threads.append(thread)

    def _accept(self, listener: socket.socket, directory: str) -> None:
        port = listener.getsockname()[1]
        while not self._closed:
            try:
                sock, _ = listener.accept()
                link = Link(sock, directory, self._wire_of)
            except OSError:
                continue  # who called has gone again
            with self._lock:
                self._links.add(link)
                known = not self._wires
            if not known:
                self._identify()
            self._run(lambda link=link: self._serve(link, port))  # type: ignore[misc]

    def _serve(self, link: Link, port: int) -> None:
        try:
            link.serve((INSIDE, port))
        finally:
            with self._lock:
                self._links.discard(link)

    def _identify(self) -> None:
        """Find out who is at the near end of each connection, while that process lives."""
        with self._lock:
            unknown = [link for link in self._links if not link.caller]
        if unknown:
            found = directories_behind({link.port for link in unknown}, list(self._listeners))
            for link in unknown:
                link.caller = found.get(link.port, "")

    def _wire_of(self, link: Link, onward: bool) -> Wire:
        if not self._wires:
            return self._fine
        pair = (link.caller, link.callee) if onward else (link.callee, link.caller)
        return self._wires.get(pair, self._fine)

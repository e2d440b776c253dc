"""Pass bytes both ways between two sockets, in the loop, in bounded memory."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import suppress

from kernel_processes.transport.poller import READ, WRITE
from kernel_processes.transport.reactor import Reactor

_CHUNK = 256 * 1024
"""Maximum number of bytes that are read at once, and held for a direction: none are read until these are written."""
_RESET, _IN_GOOD_ORDER = struct.pack("ii", 1, 0), struct.pack("ii", 0, 0)
"""Values of SO_LINGER: with the first, closing resets the connection; with the second, it ends after the last byte."""


class _Side:
    """Holds one socket, the bytes to be written to it, and whether it may still send."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.to_write = b""
        self.ended = False
        """Whether its last byte has been read."""
        self.shut = False
        """Whether its sending side has been shut down."""
        self.watched = 0


class Splice:
    """Connects `left` and `right` until both have ended, or one breaks; `first` was read from `left` already.

    It owns both sockets. `on_end(splice)` is called once, when they are closed. With `brittle`, any end that is not in
    good order resets both sockets, even the end of this process, so that no peer takes it for an end in good order.
    """

    def __init__(
        self,
        left: socket.socket,
        right: socket.socket,
        first: bytes,
        reactor: Reactor,
        on_end: Callable[[Splice], None],
        brittle: bool = False,
    ) -> None:
        self._reactor = reactor
        self._on_end = on_end
        self._left, self._right = _Side(left), _Side(right)
        self._right.to_write = first
        self._closed = False
        left.setblocking(False)
        right.setblocking(False)
        if brittle:
            self._linger(_RESET)
        self._watch()

    def close(self) -> None:
        """Close both sockets, whatever is on its way."""
        if self._closed:
            return
        self._closed = True
        for side in (self._left, self._right):
            self._reactor.unregister(side.socket.fileno())
            side.socket.close()
        self._on_end(self)

    def _linger(self, how: bytes) -> None:
        for side in (self._left, self._right):
            with suppress(OSError):  # It may be broken already, which shows when it is read.
                side.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, how)

    def abandon(self) -> None:
        """Let go of the sockets in a forked child."""
        for side in (self._left, self._right):
            side.socket.close()

    def _on_ready(self, side: _Side, other: _Side, events: int) -> None:
        try:
            if events & WRITE:
                self._write(side)
            if events & ~WRITE and not side.ended and not other.to_write:
                self._read(side, other)
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        if self._left.shut and self._right.shut:
            self._linger(_IN_GOOD_ORDER)
            self.close()
        else:
            self._watch()

    def _read(self, side: _Side, other: _Side) -> None:
        data = side.socket.recv(_CHUNK)
        side.ended = not data
        other.to_write = data
        self._write(other)

    def _write(self, side: _Side) -> None:
        other = self._left if side is self._right else self._right
        if side.to_write:
            sent = side.socket.send(side.to_write)
            side.to_write = side.to_write[sent:]
        if other.ended and not side.to_write and not side.shut:
            side.shut = True
            side.socket.shutdown(socket.SHUT_WR)

    def _watch(self) -> None:
        """Watch each socket for what can be done with it: one that is only full or ended would be ready for ever."""
        for side, other in ((self._left, self._right), (self._right, self._left)):
            wanted = WRITE if side.to_write else 0
            if not side.ended and not other.to_write:
                wanted |= READ
            if wanted != side.watched:
                self._reactor.unregister(side.socket.fileno())
                if wanted:
                    handler = self._handler(side, other)
                    self._reactor.register(side.socket.fileno(), handler, wanted)
                side.watched = wanted

    def _handler(self, side: _Side, other: _Side) -> Callable[[int], None]:
        return lambda events: self._on_ready(side, other, events)

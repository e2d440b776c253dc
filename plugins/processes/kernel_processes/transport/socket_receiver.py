"""Receive accepted TCP sockets from the gateway of the node, as descriptors over a UNIX socket (SCM_RIGHTS)."""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Callable
from contextlib import suppress

from kernel_processes.transport.reactor import Reactor

SUFFIX = ".in"
"""The suffix that makes the path of a process's socket receiver of the path of its listener."""
NOTE = b"kernel"
"""The byte string that is sent with each socket, because descriptors can't travel without data."""
_AT_ONCE = 64
_ROOM = socket.CMSG_SPACE(4 * array.array("i").itemsize)


class SocketReceiver:
    """Receives sockets at `path` and calls `adopt(socket)` with each."""

    def __init__(
        self, path: str, reactor: Reactor, adopt: Callable[[socket.socket], None], on_refused: Callable[[str], None]
    ) -> None:
        self.path = path
        self._reactor = reactor
        self._adopt = adopt
        self._on_refused = on_refused
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.bind(path)
        os.chmod(path, 0o600)
        self._socket.setblocking(False)
        reactor.register(self._socket.fileno(), self._on_ready)

    def close(self) -> None:
        """Stop receiving and remove the socket file."""
        self._reactor.unregister(self._socket.fileno())
        self._socket.close()
        with suppress(FileNotFoundError, PermissionError):  # The directory may be gone, or not ours any more.
            os.unlink(self.path)

    def abandon(self) -> None:
        """Let go of the socket in a forked child."""
        self._socket.close()

    def _on_ready(self, events: int) -> None:
        for _ in range(_AT_ONCE):
            try:
                note, ancillary, flags, _ = self._socket.recvmsg(64, _ROOM, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
            except OSError:  # there is no other, as a rule
                return
            received = _descriptors(ancillary)
            if note == NOTE and len(received) == 1:
                os.set_inheritable(received[0], False)
                self._adopt(socket.socket(fileno=received[0]))
                continue
            for descriptor in received:
                os.close(descriptor)
            if flags & socket.MSG_CTRUNC:
                self._on_refused("a connection can't be taken for want of descriptors; allow more with `ulimit -n`")


def send_socket(courier: socket.socket, sock: socket.socket, path: str) -> None:
    """Send `sock` to the receiver at `path`; `courier` is any UNIX datagram socket.

    Raises FileNotFoundError or ConnectionRefusedError when no process is there, BlockingIOError when it has not taken
    the last ones yet, and OSError for what else may be wrong.
    """
    rights = array.array("i", [sock.fileno()])
    courier.sendmsg([NOTE], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)], 0, path)


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return list(found)

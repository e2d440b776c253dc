"""Start the control plane at the first connection: without connections it takes neither time nor memory.

Until then the socket is a plain one in the head's loop. The first connection waits in its queue while a thread imports
the control plane and starts it at another path, which then takes the place of the first.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from kernel.logs import Logger
from kernel_processes.head.control_plane import ServeControlPlane, ServedControlPlane
from kernel_processes.protocol.head_sockets import control_plane_socket
from kernel_processes.transport.reactor import Reactor
from kernel_processes.transport.splice import Splice
from kernel_spec.errors import KernelError

_NEW = ".new"
_QUEUE = 128
_AT_ONCE = 2 * _QUEUE
START_SECONDS = 10.0
"""Seconds that the end of a session waits for a server that is being started."""


class SocketActivation:
    """Listens for the control plane in the session's `directory`. `serve` starts it; the loop is that of `reactor`."""

    def __init__(self, serve: ServeControlPlane, directory: str, reactor: Reactor, log: Logger) -> None:
        self._serve = serve
        self._reactor = reactor
        self._log = log
        self._path = control_plane_socket(directory)
        self._server: ServedControlPlane | None = None
        self._starting: threading.Thread | None = None
        self._splices: set[Splice] = set()
        self._closed = False
        with suppress(FileNotFoundError):  # A head that was killed may have left it.
            os.unlink(self._path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._socket.bind(self._path)
        os.chmod(self._path, 0o600)
        self._socket.listen(_QUEUE)
        self._socket.setblocking(False)
        reactor.register(self._socket.fileno(), self._on_connect)

    def close(self, turn: Callable[[float], object]) -> None:
        """End the server, if there is one, and remove the socket.

        `turn(seconds)` runs the head's loop for that long: calls and their answers pass through it.
        """
        self._closed = True
        self._stop_listening()
        if self._starting is not None:
            self._starting.join(START_SECONDS)
        if self._server is not None:
            self._server.close(turn)
        for splice in list(self._splices):
            splice.close()
        for path in (self._path, self._path + _NEW):
            with suppress(FileNotFoundError):
                os.unlink(path)

    def _on_connect(self, events: int) -> None:
        """Start the server: a client has connected, and waits in the queue of the socket meanwhile."""
        self._reactor.unregister(self._socket.fileno())
        self._starting = threading.Thread(target=self._start, name="kernel control plane starts", daemon=True)
        self._starting.start()

    def _start(self) -> None:
        try:
            self._server = self._serve(self._path + _NEW, self._started)
            return
        except KernelError as error:
            problem = str(error)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        self._reactor.call_later(0.0, lambda: self._started(problem))
        self._reactor.wake()

    def _started(self, problem: str) -> None:
        """The server listens, or can't: in the head's loop."""
        if self._closed:
            return
        if problem:
            self._log.error("the control plane can't be served", reason=problem)
            os.unlink(self._path)
        else:
            os.chmod(self._path + _NEW, 0o600)
            os.rename(self._path + _NEW, self._path)
            self._splice_waiting()
        self._stop_listening()

    def _splice_waiting(self) -> None:
        """Connect the waiting clients with the server."""
        for _ in range(_AT_ONCE):
            try:
                outer, _ = self._socket.accept()
            except OSError:
                return
            inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            try:
                inner.connect(self._path)
            except OSError as error:
                self._log.warning("a connection to the control plane is lost", reason=error.strerror)
                outer.close()
                inner.close()
                continue
            self._splices.add(Splice(outer, inner, b"", self._reactor, self._splices.discard))

    def _stop_listening(self) -> None:
        if self._socket.fileno() >= 0:
            self._reactor.unregister(self._socket.fileno())
            self._socket.close()

"""Run the relay as a child of the agent: start it, restart it when it dies, and pass it sockets to join."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections import deque
from contextlib import suppress

from kernel.logs import Logger
from kernel_network_tcp.relay.main import CONNECT, JOIN
from kernel_processes.system.processes import command_of, describe_code
from kernel_processes.transport.reactor import Reactor

AGAIN_SECONDS = 1.0
"""Seconds between two starts."""
END_SECONDS = 2.0
BACKLOG = 1024
"""Number of connections that may wait for a process that does not take them."""
_PAUSE_SECONDS = 0.02
_KIND = socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_DGRAM


class RelayProcess:
    """Runs one relay process at a time, from the first `start` on. Sockets that it has not taken go to the next one.

    `directory` is that of the session, where its errors are logged.
    """

    def __init__(self, directory: str, reactor: Reactor) -> None:
        self._directory = directory
        self._reactor = reactor
        self._log = Logger("kernel.node")
        self._process: subprocess.Popen[bytes] | None = None
        self._started = float("-inf")
        self._closed = False
        self._backlog: deque[tuple[bytes, tuple[socket.socket, ...]]] = deque()
        self._outlet, self._inlet = socket.socketpair(socket.AF_UNIX, _KIND)
        self._outlet.setblocking(False)

    @property
    def pid(self) -> int:
        """The process id, 0 while there is none."""
        return self._process.pid if self._process is not None else 0

    def start(self) -> None:
        """Start the process, unless it runs or is closed."""
        if self._process is not None or self._closed:
            return
        self._started = self._reactor.clock()
        with open(os.path.join(self._directory, "logs", "relay.err"), "ab") as errors:
            try:
                self._process = subprocess.Popen(
                    command_of("kernel_network_tcp.relay.main", str(self._inlet.fileno())),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    pass_fds=[self._inlet.fileno()],
                    start_new_session=True,
                )
            except OSError as error:
                self._log.error("the relay can't be started", reason=error.strerror)
                self._reactor.call_later(AGAIN_SECONDS, self.start)
                return
        assert self._process.stdout is not None
        self._reactor.register(self._process.stdout.fileno(), self._died)

    def join(self, caller: socket.socket, other: socket.socket) -> None:
        """Join two sockets, which are the process's from now on."""
        self._pass(JOIN, caller, other)

    def connect(self, caller: socket.socket, place: str) -> None:
        """Join a socket, which is the process's from now on, with the gateway at `place`."""
        self._pass(CONNECT + place.encode(), caller)

    def close(self) -> None:
        """End it, and all that it has joined."""
        self._closed = True
        if self._process is not None:
            self._forget(self._process)
        self._outlet.close()
        self._inlet.close()
        while self._backlog:
            self._drop(self._backlog.popleft()[1])

    def _pass(self, note: bytes, *sockets: socket.socket) -> None:
        self.start()
        if len(self._backlog) >= BACKLOG:
            self._log.warning("the relay takes no connections, and some are dropped")
            self._drop(self._backlog.popleft()[1])
        self._backlog.append((note, sockets))
        if len(self._backlog) == 1:
            self._send()

    def _send(self) -> None:
        """Pass what waits, as far as the process has taken what was passed before."""
        while self._backlog and not self._closed:
            note, sockets = self._backlog[0]
            try:
                socket.send_fds(self._outlet, [note], [sock.fileno() for sock in sockets])
            except OSError:
                self._reactor.call_later(_PAUSE_SECONDS, self._send)
                return
            self._backlog.popleft()
            self._drop(sockets)

    @staticmethod
    def _drop(sockets: tuple[socket.socket, ...]) -> None:
        for sock in sockets:
            sock.close()

    def _died(self, events: int) -> None:
        process = self._process
        assert process is not None
        self._forget(process)
        self._log.warning("the relay has died, and is started again", how=describe_code(process.returncode))
        since = self._reactor.clock() - self._started
        self._reactor.call_later(max(0.0, AGAIN_SECONDS - since), self.start)

    def _forget(self, process: subprocess.Popen[bytes]) -> None:
        self._process = None
        assert process.stdin is not None and process.stdout is not None
        self._reactor.unregister(process.stdout.fileno())
        with suppress(OSError):
            process.stdin.close()
        process.stdout.close()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

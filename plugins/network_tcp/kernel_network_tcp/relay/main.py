"""Pass the bytes of a relay in a process of its own, so that they hold up neither the head nor its agent.

It does not interpret the bytes that it passes. Sockets come in by descriptor, each message with one or two of them:

    CONNECT place    a caller: connect to the gateway at `place`, then join both
    JOIN             a caller, and the connection that dialled back for it

It ends when its standard input does: then its agent is gone.
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress

from kernel_network_tcp.transport.host_connector import HostConnector
from kernel_network_tcp.transport.preamble import CLOSED, UNREACHABLE, refusal
from kernel_network_tcp.transport.socket_authentication import ConnectFailure, tune
from kernel_processes.system.descriptor_limit import raise_limit
from kernel_processes.system.processes import collect_garbage, ignore_terminal_signals, set_title
from kernel_processes.transport.addresses import parse_host_and_port
from kernel_processes.transport.reactor import Reactor
from kernel_processes.transport.splice import Splice

CONNECT = b"C"
JOIN = b"J"
LONGEST_NOTE = 512
MAXIMUM_PAIRS = 8192
"""Maximum number of pairs that are joined at once."""
CONNECT_SECONDS = 4.0
"""Seconds for a gateway to answer: fewer than its caller waits."""
_FAREWELL_SECONDS = 5.0
_AT_ONCE = 64


def main() -> int:
    """Pass bytes until the agent is gone; return the exit code."""
    set_title("kernel: relay")
    ignore_terminal_signals()
    raise_limit()
    reactor = Reactor()
    relay = Relay(socket.socket(fileno=int(sys.argv[1])), reactor)
    reactor.register(sys.stdin.fileno(), lambda events: relay.stop())
    collect_garbage()
    relay.run()
    return 0


class Relay:
    """Joins the pairs of sockets that arrive at `inlet`, and passes their bytes."""

    def __init__(self, inlet: socket.socket, reactor: Reactor) -> None:
        self._inlet = inlet
        self._reactor = reactor
        self._splices: set[Splice] = set()
        self._connecting = 0
        self._over = False
        inlet.setblocking(False)
        reactor.register(inlet.fileno(), lambda events: self._take())

    def run(self) -> None:
        """Serve until `stop`."""
        while not self._over:
            self._reactor.poll(60.0)

    def stop(self) -> None:
        """Break everything off."""
        self._over = True
        for splice in list(self._splices):
            splice.close()

    def _take(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                note, descriptors, _, _ = socket.recv_fds(self._inlet, LONGEST_NOTE, 2)
            except OSError:  # There is usually no other.
                return
            sockets = [socket.socket(fileno=one) for one in descriptors]
            for sock in sockets:
                os.set_inheritable(sock.fileno(), False)
                sock.setblocking(False)
                tune(sock)
            if len(self._splices) + self._connecting >= MAXIMUM_PAIRS:
                for sock in sockets:
                    sock.close()
            elif note == JOIN and len(sockets) == 2:
                self._join(*sockets)
            elif note.startswith(CONNECT) and len(sockets) == 1:
                self._connect(sockets[0], note[len(CONNECT) :].decode())
            else:  # Some are missing for lack of descriptors.
                for sock in sockets:
                    sock.close()

    def _join(self, caller: socket.socket, other: socket.socket) -> None:
        self._splices.add(Splice(caller, other, b"", self._reactor, self._splices.discard, brittle=True))

    def _connect(self, caller: socket.socket, place: str) -> None:
        def connected(sock: socket.socket) -> None:
            self._connecting -= 1
            self._join(caller, sock)

        def failed(reason: str, failure: ConnectFailure) -> None:
            self._connecting -= 1
            self._refuse(caller, CLOSED if failure is ConnectFailure.CLOSED else UNREACHABLE)

        self._connecting += 1
        HostConnector(*parse_host_and_port(place), self._reactor, connected, failed, CONNECT_SECONDS).begin()

    def _refuse(self, caller: socket.socket, answer: int) -> None:
        """Send the caller the reason why not, and read on until it has arrived: closing at once could discard it."""
        fd = caller.fileno()

        def drain(events: int) -> None:
            try:
                data = caller.recv(1 << 16)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                end()

        def end() -> None:
            if caller.fileno() >= 0:
                self._reactor.unregister(fd)
                caller.close()

        with suppress(OSError):
            caller.send(refusal(answer))
            caller.shutdown(socket.SHUT_WR)
        self._reactor.register(fd, drain)
        self._reactor.call_later(_FAREWELL_SECONDS, end)

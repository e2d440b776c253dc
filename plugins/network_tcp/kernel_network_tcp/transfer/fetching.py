"""Fetch one chunk from a source's socket into this node's memory. Runs in a thread."""

from __future__ import annotations

import socket
import threading
import zlib

from kernel.logs import Logger
from kernel_network_tcp.transfer import protocol, pull_plan
from kernel_network_tcp.transfer.connections import Connections
from kernel_network_tcp.transfer.sockets import crosses_a_network, receive_exactly, receive_some, send_all, shut

_log = Logger("kernel.node.transfer")


class Fetch:
    """Carries out an ask. `memory` receives the bytes, and is released at the end.

    `cancel` may come from another thread; `run` returns soon after it (a connection that is being made is waited for).
    """

    def __init__(self, number: int, address: str, want: protocol.Want, memory: memoryview) -> None:
        self.number = number
        self.address = address
        self._want = want
        self._memory = memory
        self._received = 0
        self._answered = False
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._cancelled = False

    def cancel(self) -> None:
        """Break the connection that it uses."""
        with self._lock:
            self._cancelled = True
            if self._socket is not None:
                shut(self._socket)

    def run(self, connections: Connections) -> pull_plan.Answer:
        """Do it, and return what became of it. Never raises."""
        with self._memory:
            try:
                return self._run(connections)
            except TimeoutError:
                return self._cut(f"stalled after {self._received} of {self._want.length} bytes")
            except Exception as error:
                return self._cut(f"failed: {str(error) or type(error).__name__}")

    def _run(self, connections: Connections) -> pull_plan.Answer:
        kept = connections.take(self.address)
        if kept is not None:
            try:
                return self._exchange(kept, connections)
            except OSError as error:
                connections.forget(self.address)
                if self._answered or self._cancelled or isinstance(error, TimeoutError):
                    raise
                # The other side had probably closed the idle connection, which says nothing about the source.
        return self._exchange(connections.make(self.address), connections)

    def _exchange(self, sock: socket.socket, connections: Connections) -> pull_plan.Answer:
        """Send the request, and receive the answer. An incomplete answer closes the connection."""
        whole = False
        try:
            with self._lock:
                self._socket = sock
                if self._cancelled:
                    raise ConnectionError("the pull ended")
            want = self._want
            if not want.checksum and crosses_a_network(sock):
                place = (want.object, want.size, want.offset, want.length)
                self._want = protocol.Want(*place, want.wait, want.asker, checksum=True)
            request = connections.postponed(self.address) + protocol.encode_request(self._want)
            send_all(sock, memoryview(request))
            answer = self._receive(sock)
            whole = not isinstance(answer, pull_plan.Cut)
            return answer
        finally:
            with self._lock:
                self._socket = None
                whole = whole and not self._cancelled
            if whole:
                connections.give_back(self.address, sock)
            else:
                sock.close()

    def _receive(self, sock: socket.socket) -> pull_plan.Answer:
        stall_seconds = sock.gettimeout() or 0.0
        sock.settimeout(stall_seconds + self._want.wait)
        start = receive_exactly(sock, protocol.ANSWER_BYTES)
        sock.settimeout(stall_seconds)
        self._answered = True
        head = protocol.decode_head(start, self._want.length)
        if head.kind != protocol.BYTES:
            return self._no_bytes(head.kind, receive_exactly(sock, head.length).decode(errors="replace"))
        while self._received < head.length:
            self._received = receive_some(sock, self._memory, self._received)
        if self._want.checksum and zlib.crc32(self._memory) != head.checksum:
            _log.warning(
                "bytes of an object arrived damaged and are fetched again; see to the network, or to the memory of "
                "these machines",
                object=self._want.object.hex(), source=self.address, offset=self._want.offset, length=head.length,
            )  # fmt: skip
            return self._cut(f"sent wrong bytes: the checksum of {head.length} from {self._want.offset} on differs")
        return pull_plan.Arrived(self.number)

    def _no_bytes(self, kind: int, text: str) -> pull_plan.Answer:
        if kind == protocol.REDIRECT:
            return pull_plan.Redirected(self.number, tuple(text.split("\n")) if text else ())
        if kind == protocol.BUSY:
            return pull_plan.SourceBusy(self.number, text)
        return pull_plan.SourceRefused(self.number, text, damaged=kind == protocol.DAMAGED)

    def _cut(self, reason: str) -> pull_plan.Cut:
        """Return a `Cut` with the bytes that arrived: none if there is a checksum, which needs all of them."""
        good = 0 if self._want.checksum else self._received
        return pull_plan.Cut(self.number, good, reason)


def say_end(address: str, end: protocol.WantNoMore, connections: Connections) -> None:
    """Tell a source that this node wants no more: at once if a connection is idle, else before the next request."""
    data = protocol.encode_request(end)
    sock = connections.take(address)
    if sock is None:
        connections.postpone(address, data)
        return
    try:
        send_all(sock, memoryview(data))
    except OSError:  # The other side notices by itself.
        sock.close()
    else:
        connections.give_back(address, sock)

"""Move bytes between a blocking socket and memory, for as long as they keep coming. Runs in threads."""

from __future__ import annotations

import socket
from contextlib import suppress
from ipaddress import ip_address

PIECE_BYTES = 1 << 20
"""Maximum number of bytes in one call: calls are few, and each ends while its bytes are in the processor's cache."""


def prepare(sock: socket.socket, stall_seconds: float) -> None:
    """Make a socket raise TimeoutError when it stalls, and send what is small at once."""
    sock.settimeout(stall_seconds)
    with suppress(OSError):  # UNIX sockets do not have it.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def send_all(sock: socket.socket, data: memoryview) -> None:
    """Send it all. Raises OSError, among them TimeoutError when nothing could be sent for the socket's timeout."""
    sent = 0
    while sent < len(data):
        with data[sent : sent + PIECE_BYTES] as piece:
            sent += sock.send(piece)


def receive_some(sock: socket.socket, memory: memoryview, received: int) -> int:
    """Receive what is there into `memory` behind the `received` bytes; return how many there are now.

    Raises ConnectionError at the end of the stream, TimeoutError when nothing came for the socket's timeout.
    """
    with memory[received : received + PIECE_BYTES] as piece:
        count = sock.recv_into(piece)
    if not count:
        raise ConnectionError(f"closed the connection after {received} of {len(memory)} bytes")
    return received + count


def receive_exactly(sock: socket.socket, count: int) -> bytearray:
    """Receive `count` bytes, few ones. Raises as `receive_some`."""
    data = bytearray(count)
    received = 0
    while received < count:
        with memoryview(data) as memory:
            received = receive_some(sock, memory, received)
    return data


def shut(sock: socket.socket) -> None:
    """End a connection that a thread may be using: its call returns at once."""
    with suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)  # A TLS socket's own shutdown would continue in clear text.


def crosses_a_network(sock: socket.socket) -> bool:
    """Return whether bytes leave this machine without TLS, so that only TCP's checksum guards them."""
    if hasattr(sock, "getpeercert") or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    own, peer = sock.getsockname()[0], sock.getpeername()[0]
    return bool(own != peer and not ip_address(peer.partition("%")[0]).is_loopback)


def would_block(error: OSError) -> bool:
    """Return whether an error only means that a socket, with or without TLS, can't be read or written just now."""
    return isinstance(error, BlockingIOError) or type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError")

"""Pass file descriptors (shared memory) over a short connection of their own."""

from __future__ import annotations

import os
import socket
from struct import Struct

from kernel_processes.transport.authentication import Handshake
from kernel_spec.errors import ProtocolError

ATTACH = b"\x00" * 4
"""Sent by a client after the handshake instead of a frame: an empty frame, which no connection ever sends."""
_LENGTH = Struct("<I")
_MAXIMUM_DESCRIPTORS = 16


def send_descriptors(sock: socket.socket, descriptors: list[int], data: bytes) -> None:
    """Send `descriptors` and `data` (under 64 KB) over a connected socket."""
    socket.send_fds(sock, [_LENGTH.pack(len(data)) + data], descriptors)


def fetch_descriptors(address: str, token: bytes, timeout: float = 10.0) -> tuple[list[int], bytes]:
    """Ask the agent at `address` for the store's descriptors; return them and what came with them."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as sock:
        sock.settimeout(timeout)
        sock.connect(address)
        handshake = Handshake(token, server=False)
        while not handshake.done:
            received = sock.recv(4096)
            if not received:
                raise ProtocolError("the node agent closed the connection during the handshake")
            answer = handshake.feed(received)
            if answer:
                sock.sendall(answer)
        sock.sendall(ATTACH)
        data, descriptors, _, _ = socket.recv_fds(sock, 1 << 16, _MAXIMUM_DESCRIPTORS)
        for descriptor in descriptors:  # A task's child processes must not inherit the store.
            os.set_inheritable(descriptor, False)
        if len(data) < _LENGTH.size:
            raise ProtocolError("the node agent closed the connection instead of passing descriptors")
        length = _LENGTH.unpack_from(data)[0]
        while len(data) < length + _LENGTH.size:
            more = sock.recv(1 << 16)
            if not more:
                raise ProtocolError("the node agent closed the connection while passing descriptors")
            data += more
        return list(descriptors), data[_LENGTH.size :]

"""What the agent tells its template: of any size, because the text itself goes in anonymous memory, as a descriptor."""

from __future__ import annotations

import marshal
import os
import socket
from typing import Any

_MARK = b"."
_MAXIMUM_DESCRIPTORS = 8


def send_message(link: socket.socket, message: tuple[Any, ...], descriptors: list[int]) -> None:
    """Send a message of plain values, and descriptors with it. Raises OSError when that is impossible."""
    with open(os.memfd_create("kernel-message"), "wb", buffering=0) as text:
        rest = memoryview(marshal.dumps(message))
        while rest:
            rest = rest[text.write(rest) :]
        socket.send_fds(link, [_MARK], [text.fileno(), *descriptors])


def receive_message(link: socket.socket) -> tuple[tuple[Any, ...], list[int]] | None:
    """Return the next message and its descriptors, None when the other side is gone. Blocks until then."""
    try:
        mark, descriptors, _, _ = socket.recv_fds(link, len(_MARK), _MAXIMUM_DESCRIPTORS)
    except ConnectionError:
        return None
    if not mark:
        return None
    with open(descriptors.pop(0), "rb") as text:
        text.seek(0)  # the position is the sender's, at the end
        return marshal.load(text), descriptors

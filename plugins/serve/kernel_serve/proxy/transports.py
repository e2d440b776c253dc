"""Additions to asyncio's transports: give a connection to another protocol, and check for unread bytes."""

from __future__ import annotations

import asyncio
import fcntl
import termios
from typing import Any


def hand_over(transport: asyncio.Transport, protocol: Any, data: bytes) -> None:
    """Give a connection, and the bytes that came by it, to another protocol."""
    protocol.connection_made(transport)
    transport.set_protocol(protocol)
    if data:
        protocol.data_received(data)


def has_unread(transport: asyncio.Transport) -> bool:
    """Return whether the client has sent bytes that were not read yet."""
    connection = transport.get_extra_info("socket")
    try:
        waiting = fcntl.ioctl(connection.fileno(), termios.FIONREAD, b"\0\0\0\0")
    except (AttributeError, OSError):
        return False
    return any(waiting)

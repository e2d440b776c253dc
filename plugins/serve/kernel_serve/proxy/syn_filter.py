"""Closing a port that others of this machine share, so that no connection is refused.

Whoever connects to a shared port is given to one of those who listen, and is lost when that one closes before it has
taken the connection. HTTP's socket is handed over where it can be (`listening.py`); gRPC's server opens its own and
gives it to nobody. So, before such a socket closes, it is made deaf to those who begin to connect: they hear nothing,
ask again a second later, as TCP does, and come to another.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

SETTLE_SECONDS = 0.5
"""How long connections that have begun may take until they are there. Less than a client waits until it asks again."""
LONGEST_SECONDS = 15.0
"""How long those that are there may take to be accepted: the process may be busy, or stuck."""

_TCP_INFO = struct.Struct("8B6I")
_QUEUED = 12
"""Where Linux's tcp_info has, of a socket that listens, how many connections wait to be accepted (tcpi_unacked)."""

_ATTACH_FILTER = 26
"""SO_ATTACH_FILTER of Linux, which Python does not name."""
_FLAGS = 13
"""The byte of a TCP header with SYN (2) and ACK (16)."""
_LOAD, _AND, _IF_EQUAL, _RETURN = 0x30, 0x54, 0x15, 0x06
_PROGRAM = (
    (_LOAD, 0, 0, _FLAGS),
    (_AND, 0, 0, 2 | 16),
    (_IF_EQUAL, 0, 1, 2),
    (_RETURN, 0, 0, 0),
    (_RETURN, 0, 0, 0xFFFFFFFF),
)
"""For Linux's classic packet filter: drop what begins a connection, and pass all else."""


def filter_syns(port: int) -> None:
    """Have those who begin to connect to `port` hear nothing of this process, which listens there."""
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in _PROGRAM))
    attached = struct.pack("HL", len(_PROGRAM), ctypes.addressof(code))
    for each in _listening(port):
        with contextlib.suppress(OSError), each:  # where there are no filters, it closes as it is
            each.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, attached)


async def settled(port: int) -> None:
    """Hold off who begins to connect to `port`, and return when all that had begun before are accepted.

    After `LONGEST_SECONDS` it returns in any case.
    """
    filter_syns(port)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LONGEST_SECONDS
    while loop.time() < deadline:
        was_empty = not queued(port)
        await asyncio.sleep(SETTLE_SECONDS)  # also those that were accepted just now say who they are meanwhile
        if was_empty and not queued(port):
            return


def queued(port: int) -> int:
    """Return how many connections to `port` wait to be accepted by this process."""
    waiting = 0
    for each in _listening(port):
        with contextlib.suppress(OSError), each:
            info = each.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
            waiting += _TCP_INFO.unpack(info)[_QUEUED]
    return waiting


def _listening(port: int) -> Iterator[socket.socket]:
    """Yield the sockets of this process that listen at a TCP port, each as a copy to be closed."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):  # no socket, or closed just now
            if not os.readlink(entry).startswith("socket:"):
                continue
            found = socket.socket(fileno=os.dup(int(entry.name)))
            listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if listens and found.family in (socket.AF_INET, socket.AF_INET6) and found.getsockname()[1] == port:
                yield found
            else:
                found.close()

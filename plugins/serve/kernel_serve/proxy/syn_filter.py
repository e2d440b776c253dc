"""Close a port that other processes of this machine share, so that no connection is refused.

Linux gives a new connection at a shared port to one of the listening sockets, and it is lost when that one closes
before the connection is accepted. HTTP's socket is handed over where possible (`listening.py`); gRPC's server opens its
own and can't give it away. So, before such a socket closes, a filter drops packets that begin a connection. The
client's TCP repeats them a second later, and they reach another process.
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
"""Seconds for connections that have begun to be established. It is less than TCP's time until it repeats a packet."""
LONGEST_SECONDS = 15.0
"""The longest time in seconds to wait until established connections are accepted: the process may be busy, or stuck."""

_TCP_INFO = struct.Struct("8B6I")
_QUEUED = 12
"""The field of Linux's tcp_info that has, of a listening socket, the number of connections to accept (tcpi_unacked)."""

_ATTACH_FILTER = 26
"""SO_ATTACH_FILTER of Linux, for which Python has no name."""
_FLAGS = 13
"""The place in a TCP header of the byte with SYN (2) and ACK (16)."""
_LOAD, _AND, _IF_EQUAL, _RETURN = 0x30, 0x54, 0x15, 0x06
_PROGRAM = (
    (_LOAD, 0, 0, _FLAGS),
    (_AND, 0, 0, 2 | 16),
    (_IF_EQUAL, 0, 1, 2),
    (_RETURN, 0, 0, 0),
    (_RETURN, 0, 0, 0xFFFFFFFF),
)
"""For Linux's classic packet filter: drop packets that begin a connection, and pass all others."""


def filter_syns(port: int) -> None:
    """Drop packets that begin a connection to `port`, at the sockets of this process."""
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in _PROGRAM))
    attached = struct.pack("HL", len(_PROGRAM), ctypes.addressof(code))
    for each in _listening(port):
        with contextlib.suppress(OSError), each:  # without filters the port closes as it is
            each.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, attached)


async def settled(port: int) -> None:
    """Drop packets that begin a connection to `port`; return when all connections begun before are accepted.

    After `LONGEST_SECONDS` it returns in any case.
    """
    filter_syns(port)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LONGEST_SECONDS
    while loop.time() < deadline:
        was_empty = not queued(port)
        await asyncio.sleep(SETTLE_SECONDS)  # connections that were accepted just now send their first bytes meanwhile
        if was_empty and not queued(port):
            return


def queued(port: int) -> int:
    """Return the number of connections to `port` that this process has not accepted yet."""
    waiting = 0
    for each in _listening(port):
        with contextlib.suppress(OSError), each:
            info = each.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
            waiting += _TCP_INFO.unpack(info)[_QUEUED]
    return waiting


def _listening(port: int) -> Iterator[socket.socket]:
    """Yield the sockets of this process that listen at a TCP port, each as a copy to be closed."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):  # it is no socket, or was closed meanwhile
            if not os.readlink(entry).startswith("socket:"):
                continue
            found = socket.socket(fileno=os.dup(int(entry.name)))
            listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if listens and found.family in (socket.AF_INET, socket.AF_INET6) and found.getsockname()[1] == port:
                yield found
            else:
                found.close()

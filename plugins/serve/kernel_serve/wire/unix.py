"""Links on one machine: abstract UNIX sockets, which leave no files behind, open to processes of this user alone."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import struct
from collections.abc import Callable
from typing import Any, cast

from kernel_serve.logs import logger
from kernel_serve.wire.frames import FrameError
from kernel_serve.wire.link import PIECE, Exchange, RequestLink

_log = logger()
_CREDENTIALS = struct.Struct("3i")


class LinkProtocol(asyncio.BufferedProtocol):
    """Carries a link over a stream; `on_lost(protocol)`, if given, is called once, at the end of the link."""

    def __init__(
        self,
        make_link: Callable[[Callable[[bytes], None]], RequestLink],
        on_lost: Callable[[LinkProtocol], None] = lambda protocol: None,
        on_made: Callable[[LinkProtocol], None] = lambda protocol: None,
    ) -> None:
        self._make_link = make_link
        self._on_lost = on_lost
        self._on_made = on_made
        self.link: RequestLink
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start, unless the other end belongs to another user."""
        self.transport = cast(asyncio.Transport, transport)
        self.link = self._make_link(self.transport.write)
        user = _peer_user(self.transport)
        if user != os.geteuid():
            _log.warning("refused a link of another user", user=user)
            self.transport.abort()
            return
        self.transport.set_write_buffer_limits(high=1 << 20)
        # With the usual 0.2 MB the two ends take turns, several for a piece of a large body: a fifth fewer such bodies.
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PIECE)
        self._on_made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory into which the socket is read."""
        return self.link.space

    def buffer_updated(self, size: int) -> None:
        """Hand the bytes that were read to the link."""
        try:
            self.link.filled(size)
        except (FrameError, ValueError, EOFError, TypeError) as error:  # marshal raises these
            _log.warning("closed a link that carried something else", error=str(error))
            self.transport.abort()

    def pause_writing(self) -> None:
        """Pause the link: the other end is slow."""
        self.link.pause(True)

    def resume_writing(self) -> None:
        """Let the link go on."""
        self.link.pause(False)

    def connection_lost(self, error: Exception | None) -> None:
        """End the link."""
        self.link.lost(str(error) if error else "the connection was closed")
        self._on_lost(self)


def new_socket_name() -> str:
    """Return a new name for an abstract socket."""
    return f"\0kernel-serve-{secrets.token_hex(16)}"


async def listen(
    name: str,
    on_open: Callable[[Exchange, Any, bytes, bool], None],
    on_made: Callable[[LinkProtocol], None],
    on_lost: Callable[[LinkProtocol], None],
) -> asyncio.AbstractServer:
    """Accept links at `name`, in the running loop."""
    loop = asyncio.get_running_loop()

    def make() -> LinkProtocol:
        return LinkProtocol(lambda write: RequestLink(write, on_open), on_lost, on_made)

    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(name)
    listening.setblocking(False)
    return await loop.create_unix_server(make, sock=listening, backlog=1024)


async def connect(
    name: str,
    on_notice: Callable[[Any], None],
    on_load: Callable[[int], None],
    on_lost: Callable[[str], None],
) -> LinkProtocol:
    """Return a new link to the listener at `name`; `on_lost(reason)` is called at its end.

    Raises OSError without one.
    """
    loop = asyncio.get_running_loop()
    connecting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connecting.setblocking(False)
    try:
        await loop.sock_connect(connecting, name)
    except BaseException:
        connecting.close()
        raise

    def make() -> LinkProtocol:
        return LinkProtocol(lambda write: RequestLink(write, None, on_notice, on_load, on_lost))

    _, protocol = await loop.create_unix_connection(make, sock=connecting)
    return protocol


def _peer_user(transport: asyncio.Transport) -> int:
    connection = transport.get_extra_info("socket")
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(packed)[1])

"""The socket at which a proxy listens, and how its successor gets it.

Two proxies of one place never bind the same address: a successor gets the very socket of the proxy before, through an
abstract UNIX socket. So no connection that waits to be accepted is lost, and a port that another program has is still
refused. If the successor's address hides that of the proxy before, as 0.0.0.0 hides 127.0.0.1, it gets that socket as
well, to share its port.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import struct
from collections.abc import Sequence

from kernel_serve.proxy.ports import cannot_listen
from kernel_serve.settings import HTTPOptions

_CREDENTIALS = struct.Struct("3i")
HANDING_SECONDS = 0.5
"""Seconds to wait for a port that is taken: it may be just being handed over."""
ENDING_SECONDS = 10.0
"""Seconds to wait for the port of a process that was killed: on a busy machine its end takes a while."""
_LOOK_SECONDS = 0.05
_ANSWER_SECONDS = 10.0
"""Seconds that the proxy with the socket may take to give it: it may be busy, and to bind the port would fail."""


def bind(options: HTTPOptions) -> socket.socket:
    """Return a socket at the options' address, which several proxies may share. Raises ServeError."""
    try:
        return _bound(options)
    except OSError as error:
        raise cannot_listen("listen", options.host, options.port, error, "http_options") from error


def _bound(options: HTTPOptions, shares: bool = False) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shares or options.proxies_per_node > 1:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listening.bind((options.host, options.port))
    except OSError:
        listening.close()
        raise
    listening.setblocking(False)
    return listening


async def listening_socket(
    options: HTTPOptions, node: str, index: int, beside: Sequence[str] = (), patience: float = HANDING_SECONDS
) -> tuple[socket.socket, bool]:
    """Return a socket for proxy `index` of a node, and whether another proxy had it before. Raises ServeError.

    The proxy before in its place is asked for it, then the first one of the node. `beside` are the addresses at which
    proxies of the node listen. A port that is taken is waited for `patience` seconds.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience
    while True:
        try:
            return await loop.run_in_executor(None, _asked_or_bound, options, node, index, beside)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or loop.time() > deadline:
                raise cannot_listen("listen", options.host, options.port, error, "http_options") from error
        await asyncio.sleep(_LOOK_SECONDS)


def _asked_or_bound(options: HTTPOptions, node: str, index: int, beside: Sequence[str]) -> tuple[socket.socket, bool]:
    places = sorted({index, 0}, reverse=True)
    if options.port:
        host = _resolved(options.host, options.port)
        for place in places:
            if (found := _ask(_name(node, host, options.port, place))) is not None:
                return found, True
    try:
        return _bound(options), False
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        asked = [
            _ask(_name(node, host, options.port, place))
            for host, _, port in (address.rpartition(":") for address in beside)
            for place in places
            if port == str(options.port)
        ]
        hidden = [each for each in asked if each is not None]
        if not hidden:
            raise
        for each in hidden:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            each.close()
        return _bound(options, shares=True), False


def _resolved(host: str, port: int) -> str:
    """Return the address of a host's name."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return str(socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[0][4][0])


class Heirs:
    """Gives the socket of a proxy to its successors, which run as the same user. For the data loop."""

    def __init__(self, listening: socket.socket, node: str, index: int) -> None:
        host, port = listening.getsockname()[:2]
        self._listening = listening
        self._name = _name(node, host, port, index)
        self._server: asyncio.AbstractServer | None = None
        self._starting = asyncio.get_running_loop().create_task(self._start())

    async def _start(self) -> None:
        """Start once the proxy before has ended: until then that one gives the same socket."""
        loop = asyncio.get_running_loop()
        while True:
            at = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            at.setblocking(False)
            try:
                at.bind(self._name)
                break
            except OSError:
                at.close()
                await asyncio.sleep(_LOOK_SECONDS)
        self._server = await loop.create_unix_server(lambda: _Giver(self._listening), sock=at)

    def close(self) -> None:
        """Stop giving the socket."""
        self._starting.cancel()
        if self._server is not None:
            self._server.close()


class _Giver(asyncio.Protocol):
    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        there = transport.get_extra_info("socket")
        if _user(there) == os.geteuid():
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(there.fileno())) as connection:
                socket.send_fds(connection, [b"!"], [self._listening.fileno()])
        transport.close()  # type: ignore[attr-defined]


def _ask(name: str) -> socket.socket | None:
    """Return the socket of the proxy that gives it at `name`, None without such a proxy."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(_ANSWER_SECONDS)
        try:
            asking.connect(name)
            if _user(asking) != os.geteuid():
                return None
            _, given, _, _ = socket.recv_fds(asking, 1, 1)
        except OSError:
            return None
    if not given:
        return None
    found = socket.socket(fileno=given[0])
    found.setblocking(False)
    return found


def _name(node: str, host: str, port: int, index: int) -> str:
    return f"\0kernel-serve-listens-{node}-{host}-{port}-{index}"


def _user(connection: socket.socket) -> int:
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(packed)[1])

"""Protocols that other distributions add to a proxy's port, beside HTTP/1.1 and WebSocket.

A distribution offers one by an entry point in the group `kernel_serve.protocols`: a class, which is called without
arguments. `kernel-serve-http2` is one of them.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from kernel_serve.installed import load_installed
from kernel_serve.proxy.server_state import ServerState

GROUP = "kernel_serve.protocols"


class ExtraProtocol(Protocol):
    """A protocol: how a connection that speaks it begins, and what handles the connection."""

    alpn: str
    """The name of the protocol in TLS, such as "h2"."""
    preface: bytes
    """The first bytes of every connection. They must begin no request of HTTP/1."""

    def connection(self, state: ServerState) -> ClientConnection:
        """Return the handler of one client's connection. It is made for the first byte, so it may import much."""


class ClientConnection(Protocol):
    """A client's connection, which also is an `asyncio.Protocol`. It is in `state.connections` as long as it lives.

    It makes the requests that come by it with `state.make_request`, and is their `ResponseWriter`.
    """

    transport: asyncio.Transport

    @property
    def deadline(self) -> float:
        """The time at which `expire` is called (`state.now()`), unless the client sends something before."""

    def expire(self) -> None:
        """End the connection, or the request that is late: the deadline is over."""

    def finish(self) -> None:
        """Take no new requests; close when those under way are answered."""


def installed_protocols() -> list[ExtraProtocol]:
    """Return the protocols of the installed distributions, by name. Warn of an entry point that can't be loaded."""
    return load_installed(GROUP, "the proxy does not speak a protocol, and its clients get HTTP/1.1 instead", make=True)

"""Connect to an address of either kind: to a path over a UNIX socket, to another machine by the session's network."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from kernel_engine.messages.named_messages import Message
from kernel_processes.transport.addresses import is_tcp
from kernel_processes.transport.authentication import Handshake
from kernel_processes.transport.connection import Connection
from kernel_processes.transport.networks import load_network
from kernel_processes.transport.reactor import Reactor

if TYPE_CHECKING:
    from kernel_spec.networks import ProcessNetwork
    from kernel_spec.tls_files import TlsFiles

_ACCEPT_SECONDS = 5.0
"""Seconds to wait for a busy process to accept another connection."""


class Connector:
    """Makes the connections of a process.

    `network` is the target of the session's network ("module:attribute"), "" where the session has one machine. It is
    imported when it is first needed. `tls` says that its connections are in TLS.
    """

    def __init__(self, token: bytes, reactor: Reactor, network: str = "", tls: TlsFiles | None = None) -> None:
        self._token = token
        self._reactor = reactor
        self._target = network
        self._tls = tls
        self._network: ProcessNetwork | None = None

    def connect(
        self,
        address: str,
        on_messages: Callable[[Connection, list[Message]], None],
        on_close: Callable[[Connection, str], None],
    ) -> Connection:
        """Return a connection to a path, or to `tcp://HOST:PORT/TARGET`; the handshake goes on in the loop.

        Raises OSError when nothing listens at a path, or when no network leads to other machines. One that a network
        can't reach is reported as any end is, by `on_close(connection, reason)`, with what was sent still in the
        outbox. Raises OptionError when the address can't be read.
        """
        if is_tcp(address):
            connection: Connection = self.network().connect(address, on_messages, on_close)
            return connection
        sock = _unix_socket(address)
        return Connection(sock, self._reactor, Handshake(self._token, server=False), on_messages, on_close)

    def network(self) -> ProcessNetwork:
        """Return the network, opened now if need be.

        Raises OSError where the session has none, OptionError when the files of TLS can't be used.
        """
        if self._network is None:
            if not self._target:
                raise OSError(errno.ENETUNREACH, "this session has one machine, and no network that leads to others")
            self._network = load_network(self._target).open_process(self._token, self._tls, self._reactor)
        return self._network


def _unix_socket(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        sock.settimeout(_ACCEPT_SECONDS)
        sock.connect(path)
    except OSError:
        sock.close()
        raise
    return sock

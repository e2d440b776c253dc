"""Connect to a `tcp://` address: from a loop, or from a thread that may block."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import closing

from kernel_engine.messages.named_messages import Message
from kernel_network_tcp.transport.credentials import Credentials
from kernel_network_tcp.transport.preamble import opening, refusal_text
from kernel_network_tcp.transport.reconnector import Reconnector
from kernel_network_tcp.transport.socket_authentication import tune
from kernel_network_tcp.transport.tcp_connection import RESUME_SECONDS, TcpConnection
from kernel_network_tcp.transport.tcp_dialler import CONNECT_SECONDS
from kernel_processes.transport.addresses import parse_tcp
from kernel_processes.transport.authentication import Handshake
from kernel_processes.transport.connection import Connection
from kernel_processes.transport.poller import READ, WRITE, make_poller
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import ProtocolError


def connect(
    address: str,
    token: bytes,
    reactor: Reactor,
    on_messages: Callable[[Connection, list[Message]], None],
    on_close: Callable[[Connection, str], None],
    tls: Credentials | None = None,
    seconds: float = CONNECT_SECONDS,
    resume_seconds: float = RESUME_SECONDS,
) -> TcpConnection:
    """Return a connection to `tcp://HOST:PORT/TARGET`, in TLS with `tls`, which the loop makes within `seconds`.

    A failure is reported as any end is, by `on_close(connection, reason)`, with what was sent still in the outbox. A
    connection that is cut resumes by itself, if that succeeds within `resume_seconds`.
    Raises OptionError when the address can't be read.
    """
    place = parse_tcp(address)
    connection = TcpConnection(reactor, on_messages, on_close, resume_seconds)
    if place.route:
        connection.allow_for_relay()
    Reconnector(connection, place, token, tls, reactor, seconds)
    return connection


def open_socket(address: str, token: bytes, timeout: float = 10.0, tls: Credentials | None = None) -> socket.socket:
    """Return a blocking socket to `tcp://HOST:PORT/TARGET`, over which both sides have proved the token.

    With `tls` it is a TLS socket.
    Connecting and proving may take `timeout` seconds, which stays the socket's time limit. Raises OSError when it
    can't be reached or does not answer in time, and ProtocolError when it is not one of ours.
    """
    deadline = time.monotonic() + timeout
    place = parse_tcp(address)
    sock = socket.create_connection((place.host, place.port), timeout)
    tune(sock)
    try:
        sock.sendall(opening(place, tls is not None, token))
        sock = _secured(sock, address, tls, deadline)
        _prove(sock, address, token, deadline)
        sock.settimeout(timeout)
    except BaseException:
        sock.close()
        raise
    return sock


def _secured(sock: socket.socket, address: str, tls: Credentials | None, deadline: float) -> socket.socket:
    if tls is None:
        return sock
    from kernel_network_tcp.transport.tls_socket import secure

    secured = tls.wrap(sock, server=False)
    secured.setblocking(False)
    try:
        while waits_for := secure(secured):
            with closing(make_poller()) as poller:
                poller.register(secured.fileno(), READ if waits_for == "read" else WRITE)
                if not poller.poll(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError(0, "the TLS handshake takes too long")
    except OSError as error:
        secured.close()
        raise ProtocolError(f"no connection to {address}: {error.strerror or error}") from error
    return secured


def _prove(sock: socket.socket, address: str, token: bytes, deadline: float) -> None:
    handshake = Handshake(token, server=False)
    while not handshake.done:
        sock.settimeout(max(0.001, deadline - time.monotonic()))
        received = sock.recv(4096)
        if not received:
            raise ProtocolError(f"{address} closed the connection during the handshake")
        if reason := refusal_text(received):
            raise ProtocolError(f"no connection to {address}: {reason}")
        sock.sendall(handshake.feed(received))
    if handshake.rest():
        raise ProtocolError(f"{address} sent more than the handshake")

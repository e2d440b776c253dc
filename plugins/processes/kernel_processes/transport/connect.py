"""Connect to an address of either kind: from a loop, or from a program that may block."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import closing

from kernel_engine.messages.named_messages import Message
from kernel_processes.transport.addresses import TcpAddress, is_tcp, parse_tcp
from kernel_processes.transport.authentication import Handshake
from kernel_processes.transport.connection import Connection
from kernel_processes.transport.credentials import Credentials
from kernel_processes.transport.poller import READ, WRITE, make_poller
from kernel_processes.transport.preamble import opening, refusal_text
from kernel_processes.transport.reactor import Reactor
from kernel_processes.transport.reconnector import Reconnector
from kernel_processes.transport.socket_authentication import tune
from kernel_processes.transport.tcp_connection import RESUME_SECONDS, TcpConnection
from kernel_processes.transport.tcp_dialler import CONNECT_SECONDS
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
) -> Connection:
    """Return a connection to `address`, a UNIX path or `tcp://HOST:PORT/TARGET`; the handshake goes on in the loop.

    Raises OSError when nothing listens at a path. Over TCP, in TLS with `tls`, the loop connects as well, for at most
    `seconds`; a failure is reported as any end is, by `on_close(connection, reason)`, with what was sent still in the
    outbox. A TCP connection that is cut resumes by itself, if that succeeds within `resume_seconds`.
    Raises OptionError when the address can't be read.
    """
    if is_tcp(address):
        return _dial(parse_tcp(address), token, tls, reactor, on_messages, on_close, seconds, resume_seconds)
    sock = _unix_socket(address, 5.0)
    return Connection(sock, reactor, Handshake(token, server=False), on_messages, on_close)


def open_socket(address: str, token: bytes, timeout: float = 10.0, tls: Credentials | None = None) -> socket.socket:
    """Return a blocking socket to `address`, of either kind, over which both sides have proved the token.

    Over TCP with `tls` it is a TLS socket.
    Connecting and proving may take `timeout` seconds, which stays the socket's time limit. Raises OSError when it
    can't be reached or does not answer in time, and ProtocolError when it is not one of ours.
    """
    deadline = time.monotonic() + timeout
    if is_tcp(address):
        place = parse_tcp(address)
        sock = socket.create_connection((place.host, place.port), timeout)
        tune(sock)
    else:
        sock = _unix_socket(address, timeout)
    try:
        if is_tcp(address):
            sock.sendall(opening(place, tls is not None, token))
            sock = _secured(sock, address, tls, deadline)
        _prove(sock, address, token, deadline)
        sock.settimeout(timeout)
    except BaseException:
        sock.close()
        raise
    return sock


def _dial(
    address: TcpAddress,
    token: bytes,
    tls: Credentials | None,
    reactor: Reactor,
    on_messages: Callable[[Connection, list[Message]], None],
    on_close: Callable[[Connection, str], None],
    seconds: float,
    resume_seconds: float,
) -> TcpConnection:
    connection = TcpConnection(reactor, on_messages, on_close, resume_seconds)
    if address.route:
        connection.allow_for_relay()
    Reconnector(connection, address, token, tls, reactor, seconds)
    return connection


def _unix_socket(path: str, timeout: float) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        sock.settimeout(timeout)
        sock.connect(path)
    except OSError:
        sock.close()
        raise
    return sock


def _secured(sock: socket.socket, address: str, tls: Credentials | None, deadline: float) -> socket.socket:
    if tls is None:
        return sock
    from kernel_processes.transport.tls_socket import secure

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

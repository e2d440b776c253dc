"""Listen for connections to a process: on a UNIX socket and, if its node has a network, on that as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kernel_engine.messages.named_messages import Message
from kernel_processes.transport.connection import Connection
from kernel_processes.transport.reactor import Reactor
from kernel_processes.transport.refusal_log import RefusalLog
from kernel_processes.transport.socket_receiver import SUFFIX, SocketReceiver
from kernel_processes.transport.unix_listener import UnixListener

if TYPE_CHECKING:
    from kernel_spec.networks import IncomingSockets, ProcessNetwork


class ProcessListener:
    """Listens at `path`, and takes the sockets that the node's `network` has accepted for this process, if it has one.

    `on_messages` is called with the messages of peers that have proved the session token.
    """

    def __init__(
        self,
        path: str,
        token: bytes,
        reactor: Reactor,
        on_messages: Callable[[Connection, list[Message]], None],
        on_close: Callable[[Connection, str], None],
        on_refused: Callable[[str], None],
        network: ProcessNetwork | None = None,
    ) -> None:
        self._listeners: list[UnixListener | IncomingSockets | SocketReceiver] = []
        self._listeners.append(UnixListener(path, token, reactor, on_messages, on_close, on_refused))
        if network is not None:
            on_refused = RefusalLog(reactor, on_refused)
            incoming = network.receive(on_messages, on_close, on_refused)
            self._listeners += [SocketReceiver(path + SUFFIX, reactor, incoming.adopt, on_refused), incoming]

    def close(self) -> None:
        """Stop listening, and remove the socket files."""
        for listener in self._listeners:
            listener.close()

    def abandon(self) -> None:
        """Let go of the sockets in a forked child; the parent goes on listening."""
        for listener in self._listeners:
            listener.abandon()

"""Where a process is reached: a UNIX socket on its machine and, if its node has a gateway, an inlet beside it."""

from __future__ import annotations

from collections.abc import Callable

from kernel.transport.connection import Connection, Message
from kernel.transport.credentials import Credentials
from kernel.transport.incoming import IncomingConnections
from kernel.transport.inlet import SUFFIX, Inlet
from kernel.transport.listener import Listener
from kernel.transport.reactor import Reactor
from kernel.transport.refusals import Refusals


class Entrance:
    """Listens at `path`, and over TCP too if it has a `gateway`, in TLS if there is a `tls`.

    Who proves the token is heard by `on_messages`.
    """

    def __init__(
        self,
        path: str,
        gateway: bool,
        token: bytes,
        tls: Credentials | None,
        reactor: Reactor,
        on_messages: Callable[[Connection, list[Message]], None],
        on_close: Callable[[Connection, str], None],
        on_refused: Callable[[str], None],
    ) -> None:
        self._doors: list[Listener | IncomingConnections | Inlet] = []
        self._doors.append(Listener(path, token, reactor, on_messages, on_close, on_refused))
        if gateway:
            on_refused = Refusals(reactor, on_refused)
            incoming = IncomingConnections(token, tls, reactor, on_messages, on_close, on_refused)
            self._doors += [Inlet(path + SUFFIX, reactor, incoming.adopt, on_refused), incoming]

    def close(self) -> None:
        """Listen no more, and remove the socket files."""
        for door in self._doors:
            door.close()

    def abandon(self) -> None:
        """Let go of the sockets in a forked child; the parent goes on listening."""
        for door in self._doors:
            door.abandon()

"""Accept connections on a UNIX socket. A peer without the token is logged and disconnected."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from contextlib import suppress

from kernel_engine.messages.named_messages import Message
from kernel_processes.transport.accepted_connections import AcceptedConnections
from kernel_processes.transport.acceptor import Acceptor
from kernel_processes.transport.connection import Connection
from kernel_processes.transport.reactor import Reactor


class UnixListener:
    """Listens at `path`, and hands over connections that have proved the token, with their first messages."""

    def __init__(
        self,
        path: str,
        token: bytes,
        reactor: Reactor,
        on_messages: Callable[[Connection, list[Message]], None],
        on_close: Callable[[Connection, str], None],
        on_refused: Callable[[str], None],
    ) -> None:
        self.path = path
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            listening.bind(path)
        except OSError as error:
            listening.close()
            # The error does not name the path; for a path that is too long Python gives no error number either.
            raise OSError(error.errno or errno.ENAMETOOLONG, error.strerror or str(error), path) from None
        os.chmod(path, 0o600)
        listening.listen(1024)
        self._accepted = AcceptedConnections(token, reactor, on_messages, on_close, on_refused)
        self._acceptor = Acceptor(listening, reactor, self._accepted.adopt, on_refused)

    def close(self) -> None:
        """Stop listening and remove the socket file."""
        self._acceptor.close()
        self._accepted.close()
        with suppress(FileNotFoundError, PermissionError):  # The directory may be gone, or not ours any more.
            os.unlink(self.path)

    def abandon(self) -> None:
        """Let go of the sockets in a forked child; the parent goes on listening."""
        self._acceptor.abandon()
        self._accepted.abandon()

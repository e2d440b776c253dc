"""A process as a network sees it: it connects to others, and takes the sockets that its node has accepted for it."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from kernel_spec.ids import ProcessId
from kernel_spec.networks import Loop, Message, Network

RECEIVER = ".in"
"""The name of a target with this is that of the UNIX socket at which it takes sockets: see `kernel_spec.networks`."""


class PlayedProcess:
    """A process of the node whose session is in `directory`. It sends back all that it hears, and notes it."""

    def __init__(self, network: Network, loop: Loop, directory: Path, token: bytes) -> None:
        self.id = ProcessId(os.urandom(8))
        self.heard: list[Message] = []
        self.answers: list[Message] = []
        self.ends: list[str] = []
        self.refused: list[str] = []
        self._network = network.open_process(token, None, loop)
        self._incoming = self._network.receive(self._on_messages, lambda connection, reason: None, self.refused.append)
        self._receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._receiver.bind(str(directory / "sockets" / (self.id.hex() + RECEIVER)))
        self._receiver.setblocking(False)
        self._connections: list[Any] = []

    def connect(self, place: str, target: str) -> Any:
        """Connect to a target at a place; note what it answers."""
        connection = self._network.connect(
            f"tcp://{place}/{target}",
            lambda connection, messages: self.answers.extend(messages),
            lambda connection, reason: self.ends.append(reason),
        )
        self._connections.append(connection)
        return connection

    def take(self) -> None:
        """Take the sockets that have come since the last call."""
        while True:
            try:
                _, descriptors, _, _ = socket.recv_fds(self._receiver, 64, 1)
            except BlockingIOError:
                return
            for descriptor in descriptors:
                self._incoming.adopt(socket.socket(fileno=descriptor))

    def close(self) -> None:
        """End it."""
        for connection in self._connections:
            connection.close()
        self._incoming.close()
        self._receiver.close()

    def _on_messages(self, connection: Any, messages: list[Message]) -> None:
        if connection not in self._connections:
            self._connections.append(connection)
        self.heard += messages
        for message in messages:
            connection.send(message)
        connection.flush()

"""A gateway in a loop that a test turns, with a service and a bulk service behind it."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernel_network_tcp.gateway import Gateway
from kernel_network_tcp.process_network import TcpProcessNetwork
from kernel_network_tcp.transport.connect import connect
from kernel_network_tcp.transport.credentials import Credentials

from kernel.testing.clocks import UnhurriedClock
from kernel_engine.messages.named_messages import Message
from kernel_processes.transport.connection import Connection
from kernel_processes.transport.process_listener import ProcessListener
from kernel_processes.transport.reactor import Reactor

TOKEN = b"t" * 32
PROCESS = "0123456789abcdef"
SECONDS = 120.0
"""How long anything may take: the machine may be busy."""


class TurnedLoop:
    """A loop whose clock the test can put forward. `refused` are reasons that a failed wait shows."""

    def __init__(self) -> None:
        self.clock = UnhurriedClock()
        self.reactor = Reactor(self.clock)
        self.refused: list[str] = []

    def until(self, condition: Callable[[], object]) -> None:
        """Run the loop until something has happened."""
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"it never came; refused: {self.refused[-5:]}"
            self.reactor.poll(0.01)

    def beside(self, function: Callable[[], Any]) -> Any:
        """Return what `function` returns or raises in a thread while this loop runs."""
        results: list[Any] = []

        def work() -> None:
            try:
                results.append(function())
            except Exception as error:
                results.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        self.until(lambda: not thread.is_alive())
        return results[0]


class GatewayNode(TurnedLoop):
    """A gateway, and a process behind it once `start_process` is called; `tls` is for both.

    Messages to the service "agent" are in `incoming`, the end of its connections in `closed`, and the sockets of the
    service "transfer" in `served`.
    """

    def __init__(self, directory: Path, tls: Credentials | None = None, **options: Any) -> None:
        super().__init__()
        self.directory = str(directory)
        self.tls = tls
        self.incoming: list[Message] = []
        self.closed: list[str] = []
        self.served: list[socket.socket] = []
        self.process_incoming: list[Message] = []
        self.process_closed: list[str] = []
        self.process_refused: list[str] = []
        self.gateway = Gateway(
            "127.0.0.1", 0, TOKEN, self.reactor, self.directory, self.refused.append, tls=tls, **options
        )
        self.gateway.serve_connections("agent", self.on_messages, lambda c, r: self.closed.append(r))
        self.gateway.serve_sockets("transfer", self.served.append)
        self.listener: ProcessListener | None = None

    def on_messages(self, connection: Connection, messages: list[Message]) -> None:
        """Take what the service hears."""
        self.incoming += messages

    def on_process_messages(self, connection: Connection, messages: list[Message]) -> None:
        """Take what the process hears."""
        self.process_incoming += messages

    def start_process(self) -> None:
        """Begin to listen as a process of this node."""
        self.listener = ProcessListener(
            os.path.join(self.directory, PROCESS),
            TOKEN,
            self.reactor,
            self.on_process_messages,
            lambda c, r: self.process_closed.append(r),
            self.process_refused.append,
            TcpProcessNetwork(TOKEN, self.tls, self.reactor),
        )

    def address(self, target: str) -> str:
        """Return the address of a target behind the gateway."""
        return f"tcp://{self.gateway.address}/{target}"

    def connect(self, target: str, token: bytes = TOKEN, **options: Any) -> Any:
        """Return a connection to a target, whose `info` is a list of messages and one of reasons."""
        incoming: list[Message] = []
        reasons: list[str] = []
        connection = connect(
            self.address(target),
            token,
            self.reactor,
            lambda c, m: incoming.extend(m),
            lambda c, r: reasons.append(r),
            **options,
        )
        connection.info = (incoming, reasons)
        return connection

    def raw(self, data: bytes = b"") -> socket.socket:
        """Return a socket to the gateway, over which `data` was sent."""
        sock = socket.create_connection(("127.0.0.1", self.gateway.port), SECONDS)
        sock.sendall(data)
        return sock

    def close(self) -> None:
        """End all."""
        self.gateway.close()
        if self.listener is not None:
            self.listener.close()
        self.reactor.close()

"""Identify a process of a session, and the peers at the other end of its connections."""

from __future__ import annotations

import os
from dataclasses import field
from typing import Any

from kernel_processes.transport.addresses import process_address, through
from kernel_spec.dataclass import dataclass
from kernel_spec.ids import ProcessId
from kernel_spec.tls_files import TlsFiles


@dataclass(slots=True)
class Identity:
    """Identifies this process.

    `gateway` is the place where other machines reach its node, "" if they can't; `network` is the target of the network
    that leads to them ("module:attribute"); `tls` says that connections to them are in TLS. `relay` ("HOST:PORT") leads
    to other machines that can't be reached directly.
    """

    id: ProcessId
    role: str
    node: bytes
    job: bytes
    directory: str
    token: bytes
    gateway: str = ""
    tls: TlsFiles | None = None
    relay: str = ""
    network: str = ""

    def socket_path(self, process: ProcessId) -> str:
        """Return where `process` of this node listens."""
        return os.path.join(self.directory, "sockets", process.hex())

    def address(self) -> str:
        """Return where this process is reached, from other machines too if there is a gateway."""
        return process_address(self.gateway, self.id) if self.gateway else self.socket_path(self.id)

    def near(self, process: ProcessId, address: str) -> str:
        """Return the shortest way to `process` at `address`: past the gateway, if that is this node's own."""
        own = bool(self.gateway) and address == process_address(self.gateway, process)
        return self.socket_path(process) if own else through(self.relay, address)


@dataclass(slots=True)
class Peer:
    """Represents the process at the other end of a connection.

    `via` is the connection on which this process sends to it. There may be two, when both connected at once; always
    sending on the same one keeps all messages of one process to another in order.
    """

    id: ProcessId
    role: str
    pid: int
    address: str
    details: dict[str, Any] = field(default_factory=dict)
    via: Any = None

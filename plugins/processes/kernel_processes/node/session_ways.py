"""Read how a running session of this machine is connected to other machines, as its agent has recorded it."""

from __future__ import annotations

from typing import NamedTuple

from kernel_processes.node.sessions import description_of
from kernel_spec.tls_files import TlsFiles


class Ways(NamedTuple):
    """Holds the connections of a running session to and from other machines, each "" in a session of one machine.

    `gateway` is where others reach its node; `relay` is the port through which its agent reaches all others if it can't
    reach them directly (both "HOST:PORT"). `tls` secures these connections. `network` is the target of the network.
    """

    gateway: str
    tls: TlsFiles | None
    relay: str
    network: str


def ways_at(directory: str) -> Ways:
    """Return the connections to other machines that the agent of a running session has recorded."""
    said = description_of(directory)
    gateway, relay, network = (str(said.get(name, "")) for name in ("gateway", "relay", "network"))
    return Ways(gateway, TlsFiles(*said["tls"]) if said.get("tls") else None, relay, network)

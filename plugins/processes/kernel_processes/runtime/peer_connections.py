"""The connections of a process to its peers, and the connection on which it sends to each peer."""

from __future__ import annotations

from collections.abc import Collection

from kernel_processes.protocol.identity import Peer
from kernel_processes.transport.addresses import gateway_of
from kernel_processes.transport.connection import Connection
from kernel_spec.ids import ProcessId


class PeerConnections:
    """Keeps each connection until it has closed; several may lead to one peer. Under the lock of the process."""

    def __init__(self) -> None:
        self.all: set[Connection] = set()
        self.sending: dict[ProcessId, Connection] = {}
        """The one connection on which messages to a peer are sent: on several they might overtake each other."""

    def dialled(self, connection: Connection, process: ProcessId, address: str) -> None:
        """This process has opened a connection to a peer, to which it had none."""
        connection.info = Peer(process, "peer", 0, address, via=connection)
        self.all.add(connection)
        self.sending[process] = connection

    def introduced(self, connection: Connection, peer: Peer) -> None:
        """A peer has introduced itself on a connection, whichever side has opened it."""
        if connection.incoming and (old := self.sending.get(peer.id)) is not None and old.incoming:
            old.give_up("the peer has given up this connection and opened another")
        connection.info = peer
        self.all.add(connection)
        peer.via = self.sending.setdefault(peer.id, connection)

    def lost(self, connection: Connection, reason: str) -> bool:
        """Forget what a closed connection led to; return whether the peer is lost.

        It is lost with the last connection to it: until then its messages may be on the way.
        """
        peer: Peer = connection.info
        left = [other for other in self.all if other.info is not None and other.info.id == peer.id]
        if connection.fd < 0:  # the peer was never reached, so messages to it are lost, even if it sends messages
            for other in left:
                other.close(reason)
        elif left:
            if self.sending.get(peer.id) is connection:
                self.sending[peer.id] = left[0]
            return False
        return self.sending.pop(peer.id, None) is not None

    def of(self, processes: Collection[ProcessId], place: str) -> list[Connection]:
        """Return the connections to these processes, and to those of the node at `place`, if that is not empty."""
        known = [connection for connection in self.all if connection.info is not None]
        return [c for c in known if c.info.id in processes or (place and gateway_of(c.info.address) == place)]

"""Answer other nodes' requests: the table of uploads decides, the store holds, threads send.

The loop reads requests, which are short; while a thread sends, the socket is the thread's alone. A connection has one
request at a time. An invalid request closes the connection and has no other effect.
"""

from __future__ import annotations

import itertools
import socket
import zlib
from collections.abc import Callable
from functools import partial

from kernel.logs import Logger
from kernel_network_tcp.transfer import protocol, upload_table
from kernel_network_tcp.transfer.limits import TransferLimits
from kernel_network_tcp.transfer.ranges import Ranges
from kernel_network_tcp.transfer.sockets import prepare, send_all, shut, would_block
from kernel_processes.node.store_link import StoreLink
from kernel_processes.transport.background import Background
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import ObjectLostError, ObjectStoreFullError, ProtocolError
from kernel_spec.ids import ObjectId

TICK_SECONDS = 0.1


class _Peer:
    __slots__ = ("asking", "number", "received", "sending", "socket")

    def __init__(self, number: int, sock: socket.socket) -> None:
        self.number = number
        self.socket = sock
        self.received = bytearray()
        self.asking = False
        self.sending = False


class Uploads:
    """Serves accepted sockets.

    `is_pulled(object)` says whether the object is on its way to this node; `sent(object)` is called when a chunk of it
    was sent, or could not be.
    """

    def __init__(
        self,
        reactor: Reactor,
        store: StoreLink,
        limits: TransferLimits,
        is_pulled: Callable[[ObjectId], bool],
        sent: Callable[[ObjectId], None],
    ) -> None:
        self.table = upload_table.UploadTable(limits)
        self.sent_bytes = 0
        self._reactor = reactor
        self._store = store
        self._limits = limits
        self._is_pulled = is_pulled
        self._after_send = sent
        self._threads = Background(reactor, "upload", limits.threads)
        self._log = Logger("kernel.node.transfer")
        self._peers: dict[int, _Peer] = {}
        self._numbers = itertools.count(1)
        self._ticking = False
        self._closed = False
        self._memory: dict[ObjectId, memoryview] = {}
        """Of the objects that are held for uploads, or arriving."""

    def serve(self, sock: socket.socket) -> None:
        """Answer the requests that come over an accepted socket, which is this object's from now on."""
        if self._closed:
            sock.close()
            return
        if len(self._peers) >= self._limits.peers:
            sock.close()
            self._log.warning("transfer connection refused", reason=f"{self._limits.peers} others are open")
            return
        prepare(sock, self._limits.stall_seconds)
        peer = _Peer(next(self._numbers), sock)
        self._peers[peer.number] = peer
        self._listen(peer)

    # -- objects that arrive ---------------------------------------------------------------------------------------

    def receiving(self, object: ObjectId, memory: memoryview, present: Ranges) -> None:
        """Start to send on an object that arrives: its ranges in `present` are read from `memory`."""
        self._memory[object] = memory
        self._handle(upload_table.Receiving(object, len(memory), present))

    def progress(self, object: ObjectId) -> None:
        """Send on what has arrived of an object since the last call."""
        self._handle(upload_table.MoreReceived(object))

    def received(self, object: ObjectId, seal: Callable[[bool], None]) -> None:
        """Note that an object is complete, and call `seal(pin)`.

        `pin` is True if it is being sent to other nodes; that pin is released by this class.
        """
        held = self.table.is_wanted(object)
        seal(held)
        if not held:
            del self._memory[object]
        self._handle(upload_table.Received(object, held))

    def not_received(self, object: ObjectId, reason: str) -> None:
        """Break off all sends of an object that will not be complete. They have ended once `is_sending` is False."""
        self._handle(upload_table.NotReceived(object, reason))
        del self._memory[object]
        for connection in self.table.sends(object):
            shut(self._peers[connection].socket)

    def is_sending(self, object: ObjectId) -> bool:
        """Return whether a thread reads the memory of an object."""
        return bool(self.table.sends(object))

    def pull_ended(self, object: ObjectId) -> None:
        """Note that the pull of an object has ended: nodes that ask for it get what the store has."""
        if self.table.is_asked_for(object):
            self._hold(object)

    def close(self) -> None:
        """Break all connections and stop."""
        self._closed = True
        for peer in list(self._peers.values()):
            shut(peer.socket)
        self._threads.close()
        for peer in list(self._peers.values()):
            self._reactor.unregister(peer.socket.fileno())
            peer.socket.close()
        self._peers.clear()
        self._memory.clear()

    # -- requests --------------------------------------------------------------------------------------------------

    def _listen(self, peer: _Peer) -> None:
        """Listen to the peer. Bytes that it sent meanwhile may be in the buffer of TLS, so look at once."""
        peer.socket.setblocking(False)
        self._reactor.register(peer.socket.fileno(), lambda ready: self._read(peer))
        self._read(peer)

    def _read(self, peer: _Peer) -> None:
        try:
            while not peer.sending and peer.number in self._peers:
                data = peer.socket.recv(protocol.REQUEST_BYTES)
                if not data:
                    return self._drop(peer)
                peer.received += data
                self._take_requests(peer)
        except ProtocolError as error:
            self._log.warning("transfer connection refused", reason=str(error))
            self._drop(peer)
        except OSError as error:
            if not would_block(error):
                self._drop(peer)

    def _take_requests(self, peer: _Peer) -> None:
        while peer.number in self._peers and (found := protocol.decode_request(peer.received)) is not None:
            request, length = found
            del peer.received[:length]
            if isinstance(request, protocol.WantNoMore):
                self._handle(request)
                continue
            if peer.asking:
                raise ProtocolError("a peer asked for a chunk before it had the one it had asked for")
            peer.asking = True
            self._handle(upload_table.BytesWanted(next(self._numbers), peer.number, request))

    def _drop(self, peer: _Peer) -> None:
        if peer.sending:
            shut(peer.socket)  # Its thread fails, and then it is dropped.
        elif self._peers.pop(peer.number, None) is not None:
            self._reactor.unregister(peer.socket.fileno())
            peer.socket.close()
            self._handle(upload_table.ConnectionLost(peer.number))

    # -- instructions ----------------------------------------------------------------------------------------------

    def _handle(self, event: upload_table.UploadEvent) -> None:
        for step in self.table.handle(event, self._reactor.clock()):
            if isinstance(step, upload_table.Hold):
                if not self._is_pulled(step.object):
                    self._hold(step.object)
            elif isinstance(step, upload_table.Release):
                self._memory.pop(step.object, None)
                self._store.unpin(step.object)
            elif isinstance(step, upload_table.Send):
                self._send(step)
            elif isinstance(step, upload_table.Redirect):
                self._say(step.connection, protocol.REDIRECT, "\n".join(step.addresses))
            else:
                self._say(step.connection, step.kind, step.reason)
        if not self._ticking and self.table.busy:
            self._ticking = True
            self._reactor.call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._ticking = False
        if self.table.busy and not self._closed:
            self._handle(upload_table.UploadTick())

    def _hold(self, object: ObjectId) -> None:
        self._store.pin(object, partial(self._pinned, object))

    def _pinned(self, object: ObjectId, answer: tuple[object, int] | None, error: Exception | None) -> None:
        if answer is not None:
            self._memory[object] = self._store.view(*answer)
            self._handle(upload_table.ObjectHeld(object, answer[1]))
            return
        if isinstance(error, ObjectStoreFullError):
            kind, reason = protocol.BUSY, f"has no room to read it back from where it was spilled: {error}"
        elif isinstance(error, ObjectLostError) and error.__cause__ is None:
            kind, reason = protocol.ABSENT, "has not got it (any more)"
        else:
            kind, reason = protocol.DAMAGED, f"can't read its copy: {error}"
        self._handle(upload_table.ObjectNotHeld(object, kind, reason))

    def _say(self, connection: int, kind: int, text: str) -> None:
        """Give a short answer, for which there is always room: the one before was read before the next was asked."""
        peer = self._peers.get(connection)
        if peer is None:
            return
        peer.asking = False
        try:
            peer.socket.sendall(protocol.encode_text(kind, text))
        except OSError:
            self._drop(peer)

    def _send(self, step: upload_table.Send) -> None:
        peer = self._peers[step.connection]
        want = step.want
        chunk = self._memory[want.object][want.offset : want.offset + want.length]
        peer.sending = True
        self._reactor.unregister(peer.socket.fileno())
        peer.socket.settimeout(self._limits.stall_seconds)
        self._threads.do(partial(_send_chunk, peer.socket, chunk, want.checksum), partial(self._sent, peer, step))

    def _sent(self, peer: _Peer, step: upload_table.Send, error: OSError | None) -> None:
        peer.sending = peer.asking = False
        self._handle(upload_table.Sent(step.want.object, step.number, error is None))
        self._after_send(step.want.object)
        if error is None:
            self.sent_bytes += step.want.length
            self._listen(peer)
        else:
            self._log.debug("upload failed", object=step.want.object.hex(), to=step.want.asker, reason=str(error))
            self._drop(peer)


def _send_chunk(sock: socket.socket, chunk: memoryview, checksum: bool) -> OSError | None:
    """Send an answer with bytes. Returns the error that broke it, if any. Runs in a thread."""
    with chunk:
        try:
            head = protocol.encode_bytes_head(len(chunk), zlib.crc32(chunk) if checksum else 0)
            send_all(sock, memoryview(head))
            send_all(sock, chunk)
        except OSError as error:
            return error
    return None

"""One connection: batches of messages in frames, both ways, never blocking.

A frame is a four byte little-endian length and that many bytes of `marshal`: a list of messages, each a tuple of
plain values whose first item is an operation number. Marshal costs half of pickle for such lists, and it is read
only from peers that proved the session token. Values of users travel inside as bytes.
"""

from __future__ import annotations

import marshal
import socket
import threading
import time
from collections.abc import Callable, Container, Sequence
from contextlib import closing, suppress
from struct import Struct
from typing import Any

from kernel.runtime.critical_sections import critical
from kernel_engine.messages.named_messages import Message
from kernel_processes.transport.authentication import Handshake
from kernel_processes.transport.descriptors import send_descriptors
from kernel_processes.transport.plain_values import encoded
from kernel_processes.transport.poller import WRITE, make_poller
from kernel_processes.transport.reactor import Reactor
from kernel_processes.transport.resumption import Resumption
from kernel_spec.errors import ProtocolError

ATTACH_OPERATION = 0
"""The operation of an empty frame: the peer asks for file descriptors (see `descriptors`)."""
MAXIMUM_FRAME = 1 << 30
"""Maximum length of a frame in bytes; longer ones are refused."""
_CHUNK = 64 * 1024
_MESSAGES_A_FRAME = 512
_LENGTH = Struct("<I")
_LIST = ord("[")
"""The byte with which marshal begins a list (the highest bit says that it may be referred to)."""


class Connection(Resumption):
    """Sends and receives messages over one stream socket.

    `on_messages(connection, messages)` is called with arriving messages in the polling thread, and
    `on_close(connection, reason)` once at the end. `send` only queues; `flush` writes as much as the socket takes and
    leaves the rest to the loop. Both may be called from any thread. No message in `outbox` has been sent, not even in
    part.
    """

    _socket: socket.socket
    __slots__ = (
        "_flushing",
        "_handshake",
        "_incoming",
        "_pending",
        "_socket",
        "closed",
        "fd",
        "info",
        "on_close",
        "on_messages",
        "outbox",
        "reactor",
    )

    def __init__(
        self,
        sock: socket.socket | None,
        reactor: Reactor,
        handshake: Handshake | None,
        on_messages: Callable[[Connection, list[Message]], None],
        on_close: Callable[[Connection, str], None],
    ) -> None:
        self.fd = -1
        self.reactor = reactor
        self._handshake = handshake
        self.on_messages = on_messages
        self.on_close = on_close
        self.outbox: list[Message] = []
        self.closed = False
        self.info: Any = None
        self._pending = bytearray()
        self._incoming = bytearray()
        self._flushing = threading.RLock()
        if sock is not None:
            self._use(sock)
        if handshake is not None and (first := handshake.start()):
            self._write(first)

    @property
    def authenticated(self) -> bool:
        """Whether the peer has proved the token."""
        return self._handshake is None

    def send(self, message: Message) -> None:
        """Queue one message."""
        self.outbox.append(message)

    @critical
    def flush(self) -> None:
        """Write queued messages, as far as the socket takes them."""
        if self._handshake is not None or self.closed:
            return
        if self._flushing._is_owned():  # type: ignore[attr-defined]
            return self._flush_afterwards()
        with self._flushing:
            while self.outbox and not self._pending:
                batch = self.outbox[:_MESSAGES_A_FRAME]
                del self.outbox[: len(batch)]
                data = encoded(batch)
                if not self._write(_LENGTH.pack(len(data)) + data, batch):
                    return

    def _flush_afterwards(self) -> None:
        """Let the loop flush once more, since this thread is inside a flush already, as in a destructor."""
        self.reactor.flushing_thread = threading.get_ident()
        self.reactor.call_later(0, self.flush)
        self.reactor.wake()

    def write_out(self, seconds: float) -> None:
        """Write what is queued, waiting up to `seconds` for a peer that reads slowly."""
        deadline = time.monotonic() + seconds
        self.flush()
        if not self._pending:
            return
        with suppress(OSError, ValueError), closing(make_poller()) as poller:  # another thread may close the connection
            poller.register(self.fd, WRITE)
            while self._pending and not self.closed and (remaining := deadline - time.monotonic()) > 0:
                poller.poll(remaining)
                self._drain()

    def send_descriptors(self, descriptors: list[int], data: bytes) -> None:
        """Send file descriptors to the peer, which must wait for nothing else on this connection."""
        send_descriptors(self._socket, descriptors, data)

    def close(self, reason: str = "closed") -> None:
        """Close at once; what was not sent stays in `outbox`."""
        if self.closed:
            return
        self.closed = True
        self.reactor.unregister(self.fd)
        if self.fd >= 0:
            self._socket.close()
        self.on_close(self, reason)

    def give_up(self, reason: str) -> None:
        """Close because the peer is known to be dead."""
        self.close(reason)

    def abandon(self) -> None:
        """Close the socket in a forked child, whose parent still uses the loop and the peer."""
        self.closed = True
        if self.fd >= 0:
            self._socket.close()

    def _use(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self.fd = sock.fileno()
        self.reactor.register(self.fd, self._on_ready)

    def _write(self, data: bytes, messages: Sequence[Message] = ()) -> bool:
        """Send or keep `data`, which is what `messages` became; return whether more may be written now."""
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.outbox[:0] = messages  # The reading side learns of the end and reports it once.
            return False
        if sent < len(data):
            self._pending += memoryview(data)[sent:]
            self.reactor.watch_writes(self.fd, True)
            return False
        return True

    def _on_ready(self, events: int) -> None:
        if events & WRITE:
            self._drain()
            if events == WRITE:
                return
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            self._end_of_socket(f"the connection broke: {error.strerror}", in_good_order=False)
            return
        if data:
            self._take_in(data)
        else:
            self._end_of_socket("the peer closed the connection", in_good_order=True)

    def _end_of_socket(self, reason: str, in_good_order: bool) -> None:
        """Handle the end of the socket: the peer closed it, or the connection broke."""
        self.close(reason)

    def _take_in(self, data: bytes) -> None:
        """Handle what has arrived."""
        try:
            if self._handshake is not None:
                data = self._continue_handshake(data)
                if not data:
                    return
            messages = self._split(data)
        except ProtocolError as error:
            self.close(str(error))
            return
        if messages:
            self.on_messages(self, messages)

    def _drain(self) -> None:
        with self._flushing:
            try:
                sent = self._socket.send(self._pending[: 4 * _CHUNK])
            except BlockingIOError:
                return
            except OSError:
                self._pending.clear()
                self.reactor.watch_writes(self.fd, False)
                return
            del self._pending[:sent]
            if self._pending:
                return
            self.reactor.watch_writes(self.fd, False)
        self.flush()

    def _continue_handshake(self, data: bytes) -> bytes:
        handshake = self._handshake
        assert handshake is not None
        answer = handshake.feed(data)
        if answer:
            self._write(answer)
        if not handshake.done:
            return b""
        self._handshake = None
        self.flush()
        return handshake.rest()

    def _split(self, data: bytes) -> list[Message]:
        """Return the messages of all complete frames, and keep the rest."""
        if self._incoming:
            self._incoming += data
            if (
                len(self._incoming) < 4
                or len(self._incoming) - 4 < _LENGTH.unpack_from(self._incoming)[0] <= MAXIMUM_FRAME
            ):
                return []
            data = bytes(self._incoming)
            self._incoming.clear()
        position, end = 0, len(data)
        view = memoryview(data)
        if end > 4 and _LENGTH.unpack_from(data)[0] == end - 4:
            return unpack_frame(view[4:])  # There is nearly always just one frame.
        messages: list[Message] = []
        while end - position >= 4:
            length = _LENGTH.unpack_from(data, position)[0]
            if length > MAXIMUM_FRAME:
                raise ProtocolError(f"a frame of {length} bytes is longer than the {MAXIMUM_FRAME} allowed")
            if end - position - 4 < length:
                break
            position += 4
            if length == 0:
                messages.append((ATTACH_OPERATION,))
                continue
            messages += unpack_frame(view[position : position + length])
            position += length
        if position < end:
            self._incoming += view[position:]
        return messages


def pack_batch(outbox: list[Message]) -> bytes:
    """Remove the first messages from `outbox`, and return them as a frame."""
    batch = outbox[:_MESSAGES_A_FRAME]
    del outbox[: len(batch)]
    data = encoded(batch)
    return _LENGTH.pack(len(data)) + data


def unpack_frame(frame: memoryview) -> list[Message]:
    """Return the messages of a frame without its length. Raises ProtocolError when it is malformed."""
    if frame[0] & 0x7F != _LIST:
        raise ProtocolError("a frame is not a list of messages")
    try:
        messages: list[Message] = marshal.loads(frame)
    except (ValueError, EOFError, TypeError, MemoryError) as error:
        raise ProtocolError(f"a frame can't be read: {error}") from error
    return messages


def may_be_handled(message: Any, operations: Container[int]) -> bool:
    """Return whether a message is a tuple that begins with one of `operations`."""
    return type(message) is tuple and len(message) > 0 and type(message[0]) is int and message[0] in operations

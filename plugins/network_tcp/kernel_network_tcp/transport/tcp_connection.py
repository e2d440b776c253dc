"""A TCP connection that outlives its sockets: after a cut it resumes over another, without loss or repetition."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from struct import Struct

from kernel_engine.messages.named_messages import Message
from kernel_network_tcp.transport import control_frames as words
from kernel_network_tcp.transport.place_probe import PlaceProbe
from kernel_network_tcp.transport.resend_buffer import ResendBuffer
from kernel_processes.transport.connection import MAXIMUM_FRAME, Connection, pack_batch, unpack_frame
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import ProtocolError

RESUME_SECONDS = 10.0
"""Seconds after a cut for which both sides try to resume before the peer counts as lost."""
RELAYED_RESUME_SECONDS = 60.0
"""The same for a connection through a relay, which is the head's node: as long as nodes wait for another head."""
ENDED_SECONDS = 1.0
"""The same if the peer closed its socket in good order, or nothing listens there: most likely it has ended."""
RELAYED_ENDED_SECONDS = 3.0
"""The same through a relay which reports that nothing listens there any more."""
_LENGTH = Struct("<I")


class TcpConnection(Connection):
    """Connects without a socket at first; `attach` gives it one over which both sides have proved the token.

    When that breaks, the connection is cut: `on_cut` is called (a client dials again), messages wait, and after
    `resume_seconds` without another socket it closes. `on_end` is called when it closes for whatever reason.
    See `kernel_processes.transport.resumption` for its interface to others.
    """

    __slots__ = (
        "_cut_at", "_cuts", "_ending", "_resend", "_silent", "ended_seconds", "fresh", "incoming", "is_relayed",
        "on_cut", "on_end", "resume_seconds",
    )  # fmt: skip

    def __init__(
        self,
        reactor: Reactor,
        on_messages: Callable[[Connection, list[Message]], None],
        on_close: Callable[[Connection, str], None],
        resume_seconds: float = RESUME_SECONDS,
        incoming: bool = False,
    ) -> None:
        super().__init__(None, reactor, None, on_messages, on_close)
        self.incoming = incoming
        self.resume_seconds = resume_seconds
        self.ended_seconds = ENDED_SECONDS
        self.is_relayed = False
        """Whether a relay is in between, which may end connections: then an end in good order counts as a cut."""
        self.on_cut: Callable[[], None] = lambda: None
        self.on_end: Callable[[], None] = lambda: None
        self.fresh = True
        """Whether the server may not know it yet."""
        self._resend = ResendBuffer()
        self._cuts = 0
        self._cut_at = 0.0
        self._silent: socket.socket | None = None
        self._ending = ""

    @property
    def received(self) -> int:
        """The number of the peer's frames that have arrived."""
        return self._resend.received

    def when_cut(self, function: Callable[[], None]) -> None:
        """Have `function` called whenever it is cut."""
        self.on_cut = function

    def wait_if_ended(self, seconds: float) -> None:
        """Give up `seconds` after a cut if the peer seems to have ended."""
        self.ended_seconds = seconds

    def end_with(self, place: str) -> None:
        """While it is cut, wait no longer than for a peer that has ended once nothing listens at `place` any more."""
        self.on_cut = PlaceProbe(place, self.reactor, lambda: self.fd < 0 and not self.closed, self.hasten).begin

    def wait_at_least(self, seconds: float) -> None:
        """Give up no earlier than `seconds` after a cut."""
        self.resume_seconds = max(self.resume_seconds, seconds)

    def allow_for_relay(self) -> None:
        """Wait longer after a cut, because a relay is in between. A connection that may not be cut at all stays so."""
        if self.resume_seconds > 0:
            self.wait_at_least(RELAYED_RESUME_SECONDS)
            self.ended_seconds = max(self.ended_seconds, RELAYED_ENDED_SECONDS)
            self.is_relayed = True

    def wait_even_if_ended(self, seconds: float) -> None:
        """Give up no earlier than `seconds` after a cut, even if the peer seems to have ended.

        For a peer that is reached through other processes: those may end a connection, and be started again.
        """
        self.wait_at_least(seconds)
        self.ended_seconds = self.resume_seconds

    def unacknowledged(self) -> list[Message]:
        """Return every message that the peer may not have received. Some of them may have arrived."""
        return [*(one for frame in self._resend.kept for one in unpack_frame(memoryview(frame)[4:])), *self.outbox]

    # -- sockets ---------------------------------------------------------------------------------------------------

    def attach(self, sock: socket.socket, received: int, rest: bytes = b"") -> None:
        """Resume over `sock`, from which `rest` was read already, with a peer that has received `received` frames.

        Call it from the loop. Closes the connection when the peer can't have received so many.
        """
        self._detach()
        self._drop_silent()
        with self._flushing:
            try:
                self._resend.acknowledged(received)
            except ProtocolError as error:
                sock.close()
                self.close(str(error))
                return
            if self.incoming:
                self._pending += words.CONTROL.pack(words.WELCOME, self._resend.acknowledge())
            self._pending += b"".join(self._resend.kept)
            self._use(sock)
        if self._pending:
            self.reactor.watch_writes(self.fd, True)
            self._drain()
        self.flush()
        if rest:
            self._take_in(rest)

    def _detach(self) -> None:
        """Drop the socket, and what was on its way in either direction."""
        with self._flushing:
            fd, self.fd = self.fd, -1
            if fd >= 0:
                self.reactor.unregister(fd)
            if fd >= 0 and self._socket is not self._silent:
                self._socket.close()
            self._pending.clear()
            self._incoming.clear()

    def _cut(self, reason: str, seconds: float) -> None:
        """Drop the broken socket, and wait to resume over another; close if resuming is off."""
        self._detach()
        self._cuts += 1
        self._cut_at = self.reactor.clock()
        if self.resume_seconds <= 0:
            self.close(reason)
            return
        self._wait_no_longer(reason, min(seconds, self.resume_seconds))
        self.on_cut()

    def doubt(self, reason: str) -> None:
        """Resume over another socket, because the peer is silent on this one.

        This socket is closed only when there is another: a peer whose incoming path is cut would take it for the end.
        """
        if self.fd >= 0 and not self.closed:
            self._silent = self._socket
            self._cut(reason, self.resume_seconds)

    def _drop_silent(self) -> None:
        if self._silent is not None:
            self._silent.close()
            self._silent = None

    def hasten(self, reason: str) -> None:
        """Wait no longer than for a peer that has ended, because of what was learnt while it is cut."""
        self._wait_no_longer(reason, min(self.ended_seconds, self.resume_seconds))

    def _wait_no_longer(self, reason: str, seconds: float) -> None:
        number, left = self._cuts, self._cut_at + seconds - self.reactor.clock()
        why = f"{reason}, and it was not resumed within {seconds:g} s"
        self.reactor.call_later(left, lambda: self._expire(number, why))

    def _expire(self, number: int, reason: str) -> None:
        if number == self._cuts and self.fd < 0:
            self.close(reason)

    def close(self, reason: str = "closed") -> None:
        """Close at once, also while it is cut; what was not sent stays in `outbox`."""
        if self.closed:
            return
        if self.fd >= 0 and not self._pending and not self._ending:
            with suppress(OSError):  # The peer finds out anyway, only later.
                self._socket.send(words.CONTROL.pack(words.GOODBYE, 0))
        super().close(reason)
        self._drop_silent()
        self.on_end()

    def give_up(self, reason: str) -> None:
        """Close because the peer is known to be dead: nothing of it is waited for."""
        self._detach()
        self.close(reason)

    # -- sending ---------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write queued messages, as far as the socket takes them and the peer has acknowledged earlier ones."""
        if self.fd < 0 or self.closed:
            return
        if self._flushing._is_owned():  # type: ignore[attr-defined]
            return self._flush_afterwards()
        log = self._resend
        with self._flushing:
            while self.outbox and not self._pending and not log.full:
                frame = pack_batch(self.outbox)
                log.keep(frame)
                if not self._write(frame):
                    return

    def _say(self, word: int, number: int) -> None:
        data = words.CONTROL.pack(word, number)
        with self._flushing:
            if self._pending:
                self._pending += data
            else:
                self._write(data)

    # -- receiving -------------------------------------------------------------------------------------------------

    def _end_of_socket(self, reason: str, in_good_order: bool) -> None:
        ended = in_good_order and not self.is_relayed
        self._cut(reason, self.ended_seconds if ended else self.resume_seconds)

    def _take_in(self, data: bytes) -> None:
        try:
            messages = self._split(data)
        except ProtocolError as error:
            self.close(str(error))
            return
        if messages:
            self.on_messages(self, messages)
        if self._ending:
            self.close(self._ending)
        elif self._resend.due and self.fd >= 0:
            self._say(words.ACKNOWLEDGED, self._resend.acknowledge())

    def _split(self, data: bytes) -> list[Message]:
        """Return the messages of every complete frame, keep the rest; obey words of control on the way."""
        if self._incoming:
            self._incoming += data
            if len(self._incoming) < 4 or len(self._incoming) < _needed(_LENGTH.unpack_from(self._incoming)[0]):
                return []
            data = bytes(self._incoming)
            self._incoming.clear()
        messages: list[Message] = []
        view = memoryview(data)
        position, end = 0, len(data)
        while end - position >= 4 and not self._ending:
            length = _LENGTH.unpack_from(data, position)[0]
            needed = _needed(length)
            if end - position < needed:
                break
            if length >= words.LOWEST:
                self._obey(*words.CONTROL.unpack_from(data, position))
            else:
                messages += unpack_frame(view[position + 4 : position + needed])
                self._resend.note_received(needed)
            position += needed
        if position < end:
            self._incoming += view[position:]
        return messages

    def _obey(self, word: int, number: int) -> None:
        if word == words.ACKNOWLEDGED:
            with self._flushing:
                was_full = self._resend.full
                self._resend.acknowledged(number)
            if was_full:
                self.flush()
        elif word == words.WELCOME:
            self.fresh = False
        elif word == words.GOODBYE:
            self._ending = "the peer closed the connection"
        elif word == words.FORGOTTEN:
            self._ending = "the peer has given up this connection"
        else:
            raise ProtocolError(f"the peer says {word:#x}, which means nothing")


def _needed(length: int) -> int:
    """Return how many bytes what begins with `length` takes. Raises ProtocolError when it is no frame and no word."""
    if length >= words.LOWEST:
        return words.CONTROL.size
    if length > MAXIMUM_FRAME:
        raise ProtocolError(f"a frame of {length} bytes is longer than the {MAXIMUM_FRAME} allowed")
    if length == 0:
        raise ProtocolError("an empty frame asks for file descriptors, which don't travel between machines")
    return 4 + length

"""Exchanges over a link, without input or output: bytes in, bytes out by a function.

An exchange is one request and its answer, both as series of events (`meta`, `body`). Only the router's side opens
exchanges. Each side may send as many bytes ahead as its credit, which grows as the other side takes events: a slow
reader stops its own sender, and no other one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from kernel_serve.errors import ServeError
from kernel_serve.logs import logger
from kernel_serve.wire import frames

_log = logger()

WINDOW = 4 << 20
"""The number of bytes of an exchange that may be under way in each direction."""
_WORTH_TELLING = WINDOW // 2
PIECE = 512 << 10
"""The size in bytes from which bodies travel in pieces, so that exchanges share a link fairly."""
EVENT_COST = 128
"""The number of bytes that an event counts besides its body: about what it costs in memory until it is taken."""
_COPIED = 16 << 10
"""The size in bytes below which bodies are copied behind their frame's head: a write of its own costs more."""

Event = tuple[Any, bytes, bool]
"""The meta, the body, and whether the event is the last one of its direction."""


class ExchangeAbortedError(ServeError):
    """The other side has ended the exchange early.

    `reason` is a word such as "busy", `meta` all that was sent with it.
    """

    def __init__(self, meta: Any) -> None:
        self.meta = meta if isinstance(meta, dict) else {}
        self.reason = str(self.meta.get("reason", ""))
        super().__init__(f"the exchange was ended by the other side: {self.reason or 'no reason given'}")


class LinkLostError(ServeError):
    """The link broke while the exchange was under way."""


class Exchange:
    """One request over a link. Use it in the thread of the link's event loop.

    `wake()` is called at each change: a new event, or the exchange's end. `on_closed()` is called once, when both sides
    have sent their last events, or the exchange was aborted, or the link is lost. `on_other_ended()` is called when the
    other side has sent its last event, and this one has not.
    """

    __slots__ = (
        "_credit", "_credit_waiters", "_events", "_failure", "_local_ended", "_number", "_remote_ended", "_taken",
        "closed", "link", "on_closed", "on_other_ended", "wake",
    )  # fmt: skip

    def __init__(self, link: RequestLink, number: int, remote_ended: bool = False) -> None:
        self.link = link
        self._number = number
        self._events: deque[Event] = deque()
        self._failure: ServeError | None = None
        self._credit = WINDOW
        self._credit_waiters: list[asyncio.Future[None]] = []
        self._taken = 0
        self._local_ended, self._remote_ended = False, remote_ended
        self.closed = False
        self.wake: Callable[[], None] | None = None
        self.on_closed: Callable[[], None] | None = None
        self.on_other_ended: Callable[[], None] | None = None

    # -- sending ---------------------------------------------------------------------------------------------------

    def begin(self, meta: Any, body: bytes, end: bool) -> None:
        """Open the exchange at the other side, with its first event."""
        whole = len(body) <= PIECE
        self._send(frames.OPEN, frames.END if end and whole else 0, meta, body[:PIECE])
        if not whole:
            self.send(None, body[PIECE:], end)
        elif end:
            self._local_ended = True

    def send(self, meta: Any, body: bytes = b"", end: bool = False) -> None:
        """Send an event; nothing happens if the exchange is over. Never waits: see `drain`."""
        if self.closed or self._local_ended:
            return
        size = len(body)
        if size > PIECE:
            last = (size - 1) // PIECE * PIECE
            for at in range(0, last, PIECE):
                self._send(frames.DATA, 0, meta, body[at : at + PIECE])
                meta = None
            body = body[last:]
        self._send(frames.DATA, frames.END if end else 0, meta, body)
        if end:
            self._local_ended = True
            if self._remote_ended:
                self._close()

    async def send_all(self, meta: Any, body: bytes, end: bool = False) -> None:
        """Send an event of any size no faster than the other side takes it, and wait until more may be sent.

        Raises ExchangeAbortedError or LinkLostError when the exchange is over: a sender's loop may wait nowhere else.
        """
        if self.closed:
            raise self._failure or ExchangeAbortedError({"reason": "over"})
        last = max(0, len(body) - 1) // PIECE * PIECE
        for at in range(0, last, PIECE):
            self.send(meta, body[at : at + PIECE])
            meta = None
            if self.must_wait:
                await self.drain()
        self.send(meta, body[last:] if last else body, end)
        if self.must_wait:
            await self.drain()

    def _send(self, kind: int, flags: int, meta: Any, body: bytes) -> None:
        self._credit -= len(body) + EVENT_COST
        self.link.send(kind, flags, self._number, meta, body)

    @property
    def must_wait(self) -> bool:
        """Whether so much is under way that the sender should `drain` first; False once it has sent its last event."""
        return not self.closed and not self._local_ended and (self._credit <= 0 or self.link.paused)

    async def drain(self) -> None:
        """Wait until more may be sent, or the exchange is over."""
        while self.must_wait:
            waiter = asyncio.get_running_loop().create_future()
            self._credit_waiters.append(waiter)
            if self.link.paused:
                self.link.drain_waiters.append(self)
            await waiter

    def abort(self, meta: Any = None) -> None:
        """End the exchange for both sides, now."""
        if not self.closed:
            self.link.send(frames.ABORT, 0, self._number, meta, b"")
            self._close()

    # -- receiving -------------------------------------------------------------------------------------------------

    async def receive(self) -> Event:
        """Return the next event, waiting for it. Raises ExchangeAbortedError or LinkLostError.

        After the last event it waits until the exchange is over, and raises.
        """
        while not self._events:
            if self._failure is not None:
                raise self._failure
            if self.closed:
                raise ExchangeAbortedError({"reason": "over"})
            await self._woken()
        return self.take()

    async def _woken(self) -> None:
        woken = asyncio.get_running_loop().create_future()
        self.wake = lambda: None if woken.done() else woken.set_result(None)
        try:
            await woken
        finally:
            self.wake = None

    def take(self) -> Event:
        """Return the next event. Raises IndexError without one."""
        event = self._events.popleft()
        if not self._remote_ended:
            self._taken += len(event[1]) + EVENT_COST
            if self._taken >= _WORTH_TELLING:
                self.link.send(frames.CREDIT, 0, self._number, self._taken, b"")
                self._taken = 0
        return event

    @property
    def has_event(self) -> bool:
        """Whether `take` has something."""
        return bool(self._events)

    @property
    def other_ended(self) -> bool:
        """Whether the other side has sent its last event."""
        return self._remote_ended

    @property
    def failure(self) -> ServeError | None:
        """The reason why no more events will come, if the exchange ended early; else None."""
        return self._failure

    # -- events of the link ----------------------------------------------------------------------------------------

    def on_event(self, meta: Any, body: bytes, end: bool) -> None:
        """Take an event of the other side."""
        if self._remote_ended:
            return
        self._events.append((meta, body, end))
        if end:
            self._remote_ended = True
            if self._local_ended:
                self._close()
                return
            if self.on_other_ended is not None:
                self.on_other_ended()
        if self.wake is not None:
            self.wake()

    def on_credit(self, number: int) -> None:
        """Add to the credit: the other side has taken so many bytes."""
        self._credit += number
        if self._credit > 0:
            self.wake_senders()

    def wake_senders(self) -> None:
        """Wake the senders that wait."""
        waiters, self._credit_waiters = self._credit_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def fail(self, failure: ServeError) -> None:
        """End the exchange, because of the other side or the link."""
        if self.closed:
            return
        self._failure = failure
        self._close()

    def _close(self) -> None:
        self.closed = True
        self.link.forget(self._number)
        self.wake_senders()
        if self.on_closed is not None:
            told, self.on_closed = self.on_closed, None  # it refers to this exchange: together they would be garbage
            told()
        if self.wake is not None:
            self.wake()


class RequestLink:
    """One side of a link.

    `write(data)` sends bytes. Put bytes that come into `space`, or call `feed` with them, and call `lost` at the end.

    `on_open(exchange, meta, body, end)` is called for each exchange that the other side opens, `on_notice(meta)` for
    its notices, `on_load(load)` for each number of requests that it reports. `on_lost(reason)` is called at the end of
    the link, before its exchanges fail, so that they may be repeated elsewhere. `load` is the number of this side.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        on_open: Callable[[Exchange, Any, bytes, bool], None] | None = None,
        on_notice: Callable[[Any], None] = lambda meta: None,
        on_load: Callable[[int], None] = lambda load: None,
        on_lost: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._write = write
        self._on_open = on_open
        self._on_notice = on_notice
        self._on_load = on_load
        self._on_lost = on_lost
        self._decoder = frames.Decoder()
        self._exchanges: dict[int, Exchange] = {}
        self._last_number = 0
        """The number of the exchange that was opened last, by either side."""
        self._last_taken: int | None = None
        """The last exchange that the other side has begun with, if it takes no more."""
        self.load = 0
        self.peer = ""
        """The name of the other end; "" if it is unknown."""
        self.actor: Any = None
        """The actor at the other end, from which large results are collected; None if it is unknown."""
        self.paused = False
        self.drain_waiters: list[Exchange] = []
        self.over = False

    @property
    def exchanges(self) -> int:
        """The number of exchanges under way."""
        return len(self._exchanges)

    def open(self, meta: Any, body: bytes = b"", end: bool = True) -> Exchange:
        """Begin an exchange. Raises LinkLostError when the link is over."""
        if self.over:
            raise LinkLostError("the link is closed")
        self._last_number = self._last_number % 0xFFFFFFFF + 1
        exchange = self._exchanges[self._last_number] = Exchange(self, self._last_number)
        exchange.begin(meta, body, end)
        return exchange

    def notify(self, meta: Any) -> None:
        """Send the other side a notice that belongs to no exchange."""
        if not self.over:
            self.send(frames.NOTICE, 0, 0, meta, b"")

    def refuse_more(self) -> None:
        """Announce that exchanges which the other side opens from now on are refused, whatever becomes of the link."""
        self.notify({"draining": True, "last": self._last_number})

    def send(self, kind: int, flags: int, number: int, meta: Any, body: bytes) -> None:
        """Send a frame."""
        if not self.over:
            if len(body) < _COPIED:
                self._write(frames.encode(kind, flags, self.load, number, meta, body))
            else:
                self._write(frames.head(kind, flags, self.load, number, meta, len(body)))
                self._write(body)

    def forget(self, number: int) -> None:
        """Remove an exchange that is over."""
        self._exchanges.pop(number, None)

    @property
    def space(self) -> memoryview:
        """The memory for bytes from the other side. Call `filled` with their number."""
        return self._decoder.space

    def filled(self, size: int) -> None:
        """Take the bytes that were put into `space`. Raises FrameError for bytes that are no frames of a link."""
        self._take(self._decoder.filled(size))

    def feed(self, data: bytes) -> None:
        """Take bytes that are elsewhere. Raises as `filled`."""
        self._take(self._decoder.feed(data))

    def _take(self, found: Iterable[frames.Frame]) -> None:
        """Handle frames. If the handler of an exchange raises an error, that exchange ends, and the others go on."""
        for kind, flags, load, number, meta, body in found:
            exchange = self._exchanges.get(number)
            try:
                self._on_load(load)
                if kind == frames.DATA:
                    if exchange is not None:
                        exchange.on_event(meta, body, bool(flags & frames.END))
                elif kind == frames.OPEN:
                    self._opened(number, meta, body, bool(flags & frames.END))
                elif kind == frames.ABORT:
                    if exchange is not None:
                        exchange.fail(ExchangeAbortedError(meta))
                elif kind == frames.CREDIT:
                    if exchange is not None:
                        exchange.on_credit(int(meta))
                elif kind == frames.NOTICE:
                    if meta is not None and "last" in meta:
                        self._last_taken = meta["last"]
                    self._on_notice(meta)
                else:
                    raise frames.FrameError(f"there is no frame of kind {kind}")
            except frames.FrameError:
                raise
            except Exception:
                _log.exception("a request could not go on")
                if (failed := self._exchanges.get(number)) is not None:
                    failed.abort({"reason": "the other side had an error"})

    def _opened(self, number: int, meta: Any, body: bytes, end: bool) -> None:
        if self._on_open is None or number in self._exchanges:
            raise frames.FrameError(f"exchange {number} can't be opened here")
        exchange = self._exchanges[number] = Exchange(self, number, remote_ended=end)
        self._last_number = number
        self._on_open(exchange, meta, body, end)

    def pause(self, paused: bool) -> None:
        """Set whether the transport takes no more bytes for now."""
        self.paused = paused
        if not paused:
            waiting, self.drain_waiters = self.drain_waiters, []
            for exchange in waiting:
                exchange.wake_senders()

    def lost(self, reason: str) -> None:
        """End the link and its exchanges. Exchanges that the other side never began with fail as refused.

        `on_lost` is called before, so that they may be tried elsewhere.
        """
        if self.over:
            return
        self.over = True
        self._on_lost(reason)
        for number, exchange in list(self._exchanges.items()):
            refused = self._last_taken is not None and 0 < (number - self._last_taken) % (1 << 32) < 1 << 31
            try:
                exchange.fail(ExchangeAbortedError({"reason": "draining"}) if refused else LinkLostError(reason))
            except Exception:
                _log.exception("a request could not be ended")

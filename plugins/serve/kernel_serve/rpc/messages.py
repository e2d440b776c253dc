"""gRPC's messages as the events of an exchange.

The first event of a message has its length as `size` in its meta, and the first piece of it as its body; a large
message goes on in events without meta. The answer's last event has `code`, `details` and `trailing`, beside a message
or alone.
"""

from __future__ import annotations

from typing import Any

from kernel_serve.wire.link import Exchange

Metadata = tuple[tuple[str, "str | bytes"], ...]

OK, UNKNOWN, INVALID_ARGUMENT, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 0, 2, 3, 12, 13, 14
"""Status codes with which an answer ends: https://grpc.io/docs/guides/status-codes."""


class Joiner:
    """Joins the pieces of messages."""

    __slots__ = ("_missing", "_parts")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._missing = -1

    def add(self, size: int | None, body: bytes) -> bytes | None:
        """Take an event; return the message that it completes, else None. `size` is None if it begins no message."""
        if size is not None:
            if size == len(body):
                return body
            self._parts, self._missing = [], size
        if self._missing < 0:
            return None
        self._parts.append(body)
        self._missing -= len(body)
        if self._missing > 0:
            return None
        self._missing = -1
        return b"".join(self._parts)


class IncomingMessages:
    """Yields the messages that come over an exchange, one after the other."""

    __slots__ = ("_exchange", "_joiner", "end", "first", "last_meta")

    def __init__(self, exchange: Exchange, meta: Any = None, body: bytes = b"", end: bool = False) -> None:
        """`meta`, `body` and `end` are those of an event that has been taken already."""
        self._exchange = exchange
        self._joiner = Joiner()
        self.end = end
        self.last_meta: dict[str, Any] = {}
        """The meta of the event with the status; {} before it."""
        self.first = self._take(meta, body)

    def _take(self, meta: Any, body: bytes) -> bytes | None:
        if meta is None:
            return self._joiner.add(None, body)
        if "code" in meta:
            self.last_meta = meta
        return self._joiner.add(meta.get("size"), body)

    async def next(self) -> bytes | None:
        """Return the next message; None after the last one. Raises what `Exchange.receive` raises."""
        message, self.first = self.first, None
        if message is not None:
            return message
        exchange = self._exchange
        while not self.end:
            meta, body, self.end = exchange.take() if exchange.has_event else await exchange.receive()
            message = self._take(meta, body)
            if message is not None:
                return message
        return None


async def send_message(exchange: Exchange, message: bytes) -> None:
    """Send a message, and wait if too much is under way."""
    exchange.send({"size": len(message)}, message)
    if exchange.must_wait:
        await exchange.drain()

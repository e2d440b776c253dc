"""The greeting and the control frames of a TCP connection, which are sent besides frames of messages.

Right after the handshake the client sends a greeting: the connection that this socket is for, and the number of frames
of it that the client has received. A control frame takes the place of a frame: an impossible length, and a number.
"""

from __future__ import annotations

import os
from struct import Struct
from typing import NamedTuple

CONTROL = Struct("<IQ")
LOWEST = 0xFFFFFFF0
"""Lowest length that means a control frame."""
ACKNOWLEDGED = 0xFFFFFFFF
"""Acknowledges frames: the number is the count of all received ones."""
GOODBYE = 0xFFFFFFFE
"""The connection ends, and can't be resumed."""
WELCOME = 0xFFFFFFFD
"""The server's answer to a greeting: it knows this connection; the number is how many frames it has received."""
FORGOTTEN = 0xFFFFFFFC
"""The server's other answer: it has forgotten this connection."""

_GREETING = Struct("<B16sQ")
GREETING_BYTES = _GREETING.size
_FRESH, _RELAYED = 1, 2


class Greeting(NamedTuple):
    """The connection that a socket is for, and the number of frames that the client has `received`.

    `fresh`: the server may not know the connection yet; `relayed`: a relay is in between.
    """

    fresh: bool
    connection: bytes
    received: int
    relayed: bool = False

    def pack(self) -> bytes:
        """Return the bytes of the greeting."""
        return _GREETING.pack(self.fresh * _FRESH | self.relayed * _RELAYED, self.connection, self.received)

    @classmethod
    def unpack(cls, data: bytes) -> Greeting:
        """Read what `pack` wrote, at the beginning of `data`."""
        flags, connection, received = _GREETING.unpack_from(data)
        return cls(bool(flags & _FRESH), connection, received, bool(flags & _RELAYED))


def new_connection() -> bytes:
    """Return a name for a new connection."""
    return os.urandom(16)

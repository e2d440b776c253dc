"""What is said on a TCP connection beside frames: a greeting when a socket is new, and words of control.

The client greets, right after the handshake: which connection this socket is for, and how many frames of it were heard.
A word of control stands where a frame could: a length that no frame has, and a number.
"""

from __future__ import annotations

import os
from struct import Struct
from typing import NamedTuple

CONTROL = Struct("<IQ")
LOWEST = 0xFFFFFFF0
"""From here on a length is a word of control."""
HEARD = 0xFFFFFFFF
"""The number is how many frames were heard."""
GOODBYE = 0xFFFFFFFE
"""The connection ends, and is not to be resumed."""
WELCOME = 0xFFFFFFFD
"""The server's answer to a greeting: it knows this connection, and the number is how many frames it has heard."""
FORGOTTEN = 0xFFFFFFFC
"""The server's other answer: it knows this connection no more."""

_GREETING = Struct("<B16sQ")
GREETING_BYTES = _GREETING.size
_FRESH, _RELAYED = 1, 2


class Greeting(NamedTuple):
    """Which connection a socket is for.

    `fresh`: the server may never have heard of it; `relayed`: it leads by way of a relay.
    """

    fresh: bool
    connection: bytes
    heard: int
    relayed: bool = False

    def pack(self) -> bytes:
        """Return it as it travels."""
        return _GREETING.pack(self.fresh * _FRESH | self.relayed * _RELAYED, self.connection, self.heard)

    @classmethod
    def unpack(cls, data: bytes) -> Greeting:
        """Read what `pack` wrote, at the beginning of `data`."""
        flags, connection, heard = _GREETING.unpack_from(data)
        return cls(bool(flags & _FRESH), connection, heard, bool(flags & _RELAYED))


def new_connection() -> bytes:
    """Return a name for a new connection."""
    return os.urandom(16)

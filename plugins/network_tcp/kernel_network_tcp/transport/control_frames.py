"""What is sent on a TCP connection beside frames of messages: a greeting when a socket is new, and control frames.

Right after the handshake the client sends a greeting: which connection this socket is for, and how many frames of it
the client has received. A control frame stands where a frame could: a length that no frame has, and a number.
"""

from __future__ import annotations

import os
from struct import Struct
from typing import NamedTuple

CONTROL = Struct("<IQ")
LOWEST = 0xFFFFFFF0
"""From here on a length means a control frame."""
HEARD = 0xFFFFFFFF
"""The number is how many frames were received."""
GOODBYE = 0xFFFFFFFE
"""The connection ends, and is not to be resumed."""
WELCOME = 0xFFFFFFFD
"""The server's answer to a greeting: it knows this connection; the number is how many frames it has received."""
FORGOTTEN = 0xFFFFFFFC
"""The server's other answer: it has forgotten this connection."""

_GREETING = Struct("<B16sQ")
GREETING_BYTES = _GREETING.size
_FRESH, _RELAYED = 1, 2


class Greeting(NamedTuple):
    """Which connection a socket is for.

    `fresh`: the server may not know it yet; `relayed`: a relay is in between.
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

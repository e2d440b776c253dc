"""The limits of one HTTP/2 connection."""

from __future__ import annotations

from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class HTTP2Limits:
    """Sizes are in bytes.

    A client may have `streams` requests under way, and reset `resets` requests more than it lets be answered. Of one
    request's body it may send `stream_window` bytes ahead, of all together `connection_window`.
    """

    streams: int = 128
    resets: int = 200
    stream_window: int = 256 << 10
    connection_window: int = 4 << 20
    unsent: int = 1 << 20
    """The number of bytes that may wait to be sent to a client that does not read, and still makes requests."""

"""The limits of transfers, in one place."""

from __future__ import annotations

from kernel_spec.dataclass import dataclass

HISTORY_EVENTS = 100
"""Number of the latest events that a failed `validate` shows."""


@dataclass(frozen=True, slots=True)
class TransferLimits:
    """Holds the limits of transfers: bytes, counts and seconds.

    It takes several connections to one source to fill a link: a single one leaves either side idle while it wakes up.
    """

    chunk_bytes: int = 8 << 20
    """Bytes of one request."""
    asks_per_pull: int = 4
    """Maximum number of chunks of one object that are requested at a time."""
    asks_per_source: int = 3
    """Maximum number of these chunks from one source: each has a connection."""
    sources_at_once: int = 2
    """Maximum number of sources that are used together."""
    uploads_per_object: int = 2
    """Maximum number of nodes to which this one sends an object at a time; others are redirected to those."""
    bytes_in_flight: int = 1 << 30
    """Maximum number of bytes that are pulled to this node at a time; a larger object is pulled alone."""
    pulls_at_once: int = 16
    threads: int = 8
    """Maximum number of chunks that arrive at a time, and of chunks that are sent at a time."""
    peers: int = 256
    """Maximum number of connections of other nodes that are kept open."""
    wait_seconds: float = 2.0
    """Seconds for which a source may hold a request for bytes that it is still receiving itself."""
    stall_seconds: float = 5.0
    """A connection that moves no byte for so many seconds is given up."""
    retry_seconds: float = 0.05
    """Seconds before a source that was busy or failed is asked again; doubled each time."""
    longest_retry_seconds: float = 2.0
    failures_per_source: int = 5
    """A source is no longer asked after so many consecutive failures."""
    patience_seconds: float = 60.0
    """A pull that receives nothing for so many seconds fails."""
    overtaken_seconds: float = 5.0
    """A pull that has queued for so many seconds is no longer overtaken by smaller ones."""
    idle_seconds: float = 30.0
    """Seconds for which an unused connection is kept, and for which a node that had an object is recommended."""
    checksums: bool = False
    """Whether chunks carry a CRC-32 on every connection, and not only where they cross a network without TLS."""

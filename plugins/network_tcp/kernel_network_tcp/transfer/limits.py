"""The numbers of transfer, in one place."""

from __future__ import annotations

from kernel_spec.dataclass import dataclass

HISTORY_EVENTS = 100
"""The number of the latest events that a failed `validate` shows."""


@dataclass(frozen=True, slots=True)
class TransferLimits:
    """Limits of transfers: bytes, counts and seconds.

    It takes several connections to one source to fill a link: a single one leaves either side idle while it wakes up.
    """

    chunk_bytes: int = 8 << 20
    """Bytes of one request."""
    asks_per_pull: int = 4
    """Chunks of one object that are on their way together."""
    asks_per_source: int = 3
    """Of these, how many from one source: each has a connection."""
    sources_at_once: int = 2
    """The number of sources that are used together."""
    uploads_per_object: int = 2
    """The number of nodes to which this one sends an object at a time; others are redirected to those."""
    bytes_in_flight: int = 1 << 30
    """Bytes that are pulled to this node at a time; a larger object is pulled alone."""
    pulls_at_once: int = 16
    threads: int = 8
    """The number of chunks that arrive at a time, and of those that are sent at a time."""
    peers: int = 256
    """Connections of others that are kept open."""
    wait_seconds: float = 2.0
    """Seconds for which a source may hold a request for bytes that it is still receiving itself."""
    stall_seconds: float = 5.0
    """A connection over which no byte came or went for so long is given up."""
    retry_seconds: float = 0.05
    """Seconds before a source that was busy or failed is asked again; doubled each time."""
    longest_retry_seconds: float = 2.0
    failures_per_source: int = 5
    """After so many failures without a chunk in between, a source is not asked again."""
    patience_seconds: float = 60.0
    """A pull to which nothing came for so long fails."""
    overtaken_seconds: float = 5.0
    """After so long in the queue, a pull is no longer overtaken by smaller ones."""
    idle_seconds: float = 30.0
    """Seconds for which an unused connection is kept, and for which a node that had an object is recommended."""
    checksums: bool = False
    """Whether chunks carry a CRC-32 on every connection, and not only where they cross a network without TLS."""

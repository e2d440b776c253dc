"""The numbers of transfer, in one place."""

from __future__ import annotations

from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TransferLimits:
    """How much at once, and how long. Bytes, counts and seconds.

    What fills a link is several connections to one source: a single one leaves either side idle while it wakes up.
    """

    chunk_bytes: int = 8 << 20
    """What is asked for at once."""
    asks_per_pull: int = 4
    """Chunks of one object that are on their way together."""
    asks_per_source: int = 3
    """Of these, how many from one source: each has a connection."""
    sources_at_once: int = 2
    """How many sources are used together, where several have the object."""
    uploads_per_object: int = 2
    """How many nodes this one sends an object to at a time; the others are sent to these."""
    bytes_in_flight: int = 1 << 30
    """What is pulled together to this node, in all; one object larger than that is pulled alone."""
    pulls_at_once: int = 16
    threads: int = 8
    """How many chunks arrive together, and how many are sent together."""
    peers: int = 256
    """Connections of others that are kept open."""
    wait_seconds: float = 2.0
    """How long a source may keep a request for bytes that it is itself still waiting for."""
    stall_seconds: float = 5.0
    """A connection over which no byte came or went for so long is given up."""
    retry_seconds: float = 0.05
    """How long a source is left alone that was busy or failed; doubled each time."""
    longest_retry_seconds: float = 2.0
    failures_per_source: int = 5
    """After so many failures without a chunk in between, a source is not asked again."""
    patience_seconds: float = 60.0
    """A pull to which nothing came for so long fails."""
    overtaken_seconds: float = 5.0
    """After so long in the queue, a pull is no longer overtaken by smaller ones."""
    idle_seconds: float = 30.0
    """How long a connection that nobody uses is kept, and how long a node that had an object is recommended."""
    checksums: bool = False
    """Whether chunks carry a CRC-32 on every connection, and not only where they cross a network without TLS."""

"""The metadata contract: a small ordered key-value table for the head.

Called from one thread of the head. A call that returned has happened as far as the store promises: `durable`
stores keep it through `kill -9` and restart of the head. Keys and values are bytes; a value with its key has up to
`LARGEST_VALUE_BYTES`. It may raise `MetadataError`; the head then stops accepting changes and says so.

A store that can outlive its head should be a `LastingMetadataStore`: then a head that was replaced, and does not know
it yet, can do no harm.

On conflict: a driver (one chosen by name). On absence the table is in memory and ends with the head.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, runtime_checkable

LARGEST_VALUE_BYTES = 16 << 20
"""Maximum size in bytes of a key and its value: a larger one would block the head for too long."""


@runtime_checkable
class MetadataStore(Protocol):
    """Keys are grouped in tables. See the module's text."""

    name: str
    durable: bool

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value, or None."""
        ...

    def put(self, table: str, key: bytes, value: bytes, *, overwrite: bool = True) -> bool:
        """Store the value and return True; with `overwrite=False` and the key there, change nothing, return False."""
        ...

    def put_many(self, table: str, items: Mapping[bytes, bytes]) -> None:
        """Store all of `items` or, if it raises, none."""
        ...

    def delete(self, table: str, key: bytes) -> bool:
        """Remove the key; return whether it was there."""
        ...

    def scan(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield the pairs whose key starts with `prefix`, in key order, as of the call."""
        ...

    def close(self) -> None:
        """Flush and close. Called once."""
        ...


@runtime_checkable
class LastingMetadataStore(MetadataStore, Protocol):
    """A metadata store that another head may open after this one, or at the same time. These methods are optional.

    Before the first claim, every open store may write. After a claim, each change through another open store, also
    through one that is opened later, raises `HeadReplacedError` and changes nothing, until that store claims in turn.
    The latest claim wins, independent of clocks. Reading is always allowed.
    """

    def claim(self, owner: bytes) -> int:
        """Become the only open store that may write, and return an epoch larger than that of every earlier claim.

        `owner` is UTF-8 text that names this head in the errors of stores that are refused from then on.
        """
        ...

    def discard(self) -> None:
        """Remove everything including the claim, and close: the session has ended. Called once, instead of `close`.

        For a head that was replaced this only closes. A store whose content others may still need may keep it.
        """
        ...

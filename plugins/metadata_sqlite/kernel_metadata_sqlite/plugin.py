"""The hooks of this distribution. SQLite is imported when the store is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kernel_spec.hooks import hookimpl
from kernel_spec.metadata import MetadataStore


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Say which contract this was written for."""
    return {"metadata_store": 1}


@hookimpl
def kernel_metadata_stores() -> Mapping[str, Callable[[str], MetadataStore]]:
    """Offer the metadata store `sqlite`."""
    return {"sqlite": open_store}


def open_store(directory: str, *, lock_seconds: float = 5.0) -> MetadataStore:
    """Open or make the store in `directory`, waiting up to `lock_seconds` for another head to let go of it.

    Raises MetadataError when the store can't be relied on.
    """
    from kernel_metadata_sqlite.store import SqliteMetadataStore

    return SqliteMetadataStore(directory, lock_seconds=lock_seconds)

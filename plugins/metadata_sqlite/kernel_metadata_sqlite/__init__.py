"""Metadata in one SQLite file of the session directory, so that a head that is started again carries on.

`store` is the table, `plugin` offers it to the kernel.
"""

from kernel_metadata_sqlite.store import SqliteMetadataStore

__all__ = ["SqliteMetadataStore"]

"""The metadata store in its simplest correct form: dictionaries, which end with the process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

from kernel_spec.errors import MetadataError


class LocalMetadataStore:
    """Tables in memory. The directory is taken, as by every metadata store, and not used."""

    name = "memory"
    durable = False

    def __init__(self, directory: str = "") -> None:
        self._tables: dict[str, dict[bytes, bytes]] = {}
        self._lock = threading.RLock()  # a destructor may use it amid a use
        self._closed = False
        self._epoch = 0

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value, or None."""
        with self._lock:
            return self._table(table).get(key)

    def put(self, table: str, key: bytes, value: bytes, *, overwrite: bool = True) -> bool:
        """Store the value and return True; with `overwrite=False` and the key there, change nothing, return False."""
        with self._lock:
            entries = self._table(table)
            if not overwrite and key in entries:
                return False
            entries[bytes(key)] = bytes(value)
            return True

    def put_many(self, table: str, items: Mapping[bytes, bytes]) -> None:
        """Store all of `items` or, if it raises, none."""
        copies = {bytes(key): bytes(value) for key, value in items.items()}
        with self._lock:
            self._table(table).update(copies)

    def delete(self, table: str, key: bytes) -> bool:
        """Remove the key; return whether it was there."""
        with self._lock:
            return self._table(table).pop(key, None) is not None

    def scan(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield the pairs whose key starts with `prefix`, in key order, as of the call."""
        with self._lock:
            entries = self._table(table).copy()
        return iter(sorted(pair for pair in entries.items() if pair[0].startswith(prefix)))

    def claim(self, owner: bytes) -> int:
        """Return the next epoch. No other process can open these tables, so none has to be kept out."""
        with self._lock:
            self._check_open()
            self._epoch += 1
            return self._epoch

    def discard(self) -> None:
        """Forget everything."""
        self.close()

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._closed = True
            self._tables.clear()

    def _table(self, name: str) -> dict[bytes, bytes]:
        self._check_open()
        return self._tables.setdefault(name, {})

    def _check_open(self) -> None:
        if self._closed:
            raise MetadataError("the metadata store in memory was closed; nothing can be read or stored any more")

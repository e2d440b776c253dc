"""Hold a metadata store to its contract: report foreign errors and wrong results with the name of the plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kernel.plugin_faults import told
from kernel_spec.errors import KernelError, MetadataError
from kernel_spec.metadata import LastingMetadataStore, MetadataStore


def guarded(store: MetadataStore, label: str) -> MetadataStore:
    """Return `store`, which is called `label`, under guard: a lasting one if it is one."""
    if isinstance(store, LastingMetadataStore):
        return LastingMetadataGuard(store, label)
    return MetadataGuard(store, label)


class MetadataGuard:
    """Wraps a `kernel_spec.metadata.MetadataStore`: an error outside its contract becomes a MetadataError."""

    def __init__(self, store: MetadataStore, label: str) -> None:
        self.name = store.name
        self.durable = store.durable
        self._store: Any = store
        self._label = label

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value, or None."""
        return self._ask("get", (bytes, type(None)), lambda: self._store.get(table, key))

    def put(self, table: str, key: bytes, value: bytes, *, overwrite: bool = True) -> bool:
        """Store the value, and return whether that was done."""
        return self._ask("put", bool, lambda: self._store.put(table, key, value, overwrite=overwrite))

    def put_many(self, table: str, items: Mapping[bytes, bytes]) -> None:
        """Store all of `items` or, if it raises, none."""
        self._ask("put_many", object, lambda: self._store.put_many(table, items))

    def delete(self, table: str, key: bytes) -> bool:
        """Remove the key; return whether it was there."""
        return self._ask("delete", bool, lambda: self._store.delete(table, key))

    def scan(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Return the pairs whose key starts with `prefix`, in key order."""
        return iter(self._ask("scan", list, lambda: [(key, value) for key, value in self._store.scan(table, prefix)]))

    def close(self) -> None:
        """Flush and close."""
        self._ask("close", object, self._store.close)

    def _ask(self, what: str, wanted: type | tuple[type, ...], method: Callable[[], Any]) -> Any:
        try:
            answer = method()
        except KernelError:
            raise
        except Exception as error:
            raise MetadataError(told(f"{self._label}: its {what}()", error)) from error
        if not isinstance(answer, wanted):
            kinds = wanted if isinstance(wanted, tuple) else (wanted,)
            names = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
            raise MetadataError(f"{self._label}: its {what}() returned {answer!r:.100}, not {names}")
        return answer


class LastingMetadataGuard(MetadataGuard):
    """Wraps a `kernel_spec.metadata.LastingMetadataStore` in the same way."""

    def claim(self, owner: bytes) -> int:
        """Become the only open store that may write, and return an epoch."""
        return self._ask("claim", int, lambda: self._store.claim(owner))

    def discard(self) -> None:
        """Remove everything, and close."""
        self._ask("discard", object, self._store.discard)

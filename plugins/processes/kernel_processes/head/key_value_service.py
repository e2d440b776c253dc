"""The key-value store of a session: any process may put values there, for any other process to read."""

from __future__ import annotations

from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import ProcessRecord
from kernel_spec.metadata import MetadataStore
from kernel_spec.value_limit import check_size


class KeyValueService:
    """Keeps values in the session's metadata store. Runs in the head's loop."""

    def __init__(self, dispatcher: MessageDispatcher, store: MetadataStore) -> None:
        self._store = store
        dispatcher.methods |= {
            "kv_put": self._put,
            "kv_get": lambda caller, namespace, key: store.get(_table(namespace), key),
            "kv_delete": lambda caller, namespace, key: store.delete(_table(namespace), key),
            "kv_keys": self._keys,
        }

    def _put(self, caller: ProcessRecord, namespace: str, key: bytes, value: bytes, overwrite: bool) -> bool:
        """Store a value; return whether it was stored."""
        check_size(key, len(value))
        return self._store.put(_table(namespace), key, value, overwrite=overwrite)

    def _keys(self, caller: ProcessRecord, namespace: str, prefix: bytes) -> list[bytes]:
        """Return the keys that begin with `prefix`."""
        return [key for key, _ in self._store.scan(_table(namespace), prefix)]


def _table(namespace: str) -> str:
    return f"kv:{namespace}"

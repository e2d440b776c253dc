"""A key-value store that all programs of a session share: small values that the head keeps when a program ends."""

from __future__ import annotations

from typing import Any

from kernel.api.session import ensure_session
from kernel_spec.errors import OptionError
from kernel_spec.value_limit import check_size


class KeyValue:
    """A mapping of keys to bytes in one `namespace`, shared by all programs of the session.

    The head keeps the values in its metadata store; in a durable one (`sqlite`, `redis`) they outlive the head. It is
    meant for values of some kilobytes that are written a few times a second. A value has 16 MB at most; put larger ones
    into objects or files. Each method asks the head and waits for its answer, so a coroutine should call it in a thread
    (`asyncio.to_thread`).
    Raises OptionError for a namespace that is not a non-empty string.
    """

    def __init__(self, namespace: str) -> None:
        if not isinstance(namespace, str) or not namespace:
            raise OptionError(f"the namespace of a KeyValue must be a non-empty string, not {namespace!r}")
        self._namespace = namespace

    @property
    def namespace(self) -> str:
        """The namespace of this mapping."""
        return self._namespace

    def put(self, key: str, value: bytes, *, overwrite: bool = True) -> bool:
        """Store a value and return True; without `overwrite` keep an existing value and return False.

        Raises OptionError for a key that is not a string, and for a value that is not bytes or has more than 16 MB.
        """
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise OptionError(
                f"the value of {key!r} must be bytes, not a {type(value).__name__}; pickle.dumps() makes bytes of it"
            )
        check_size(_name(key), memoryview(value).nbytes)
        return bool(self._ask("kv_put", _name(key), bytes(value), bool(overwrite)))

    def get(self, key: str) -> bytes | None:
        """Return the value of a key, or None if it has none."""
        found: bytes | None = self._ask("kv_get", _name(key))
        return found

    def delete(self, key: str) -> bool:
        """Delete a key; return whether it had a value."""
        return bool(self._ask("kv_delete", _name(key)))

    def keys(self, prefix: str = "") -> list[str]:
        """Return the keys that begin with `prefix`, sorted."""
        return [key.decode() for key in self._ask("kv_keys", _name(prefix))]

    def _ask(self, method: str, *arguments: Any) -> Any:
        return ensure_session().query(method, self._namespace, *arguments)

    def __repr__(self) -> str:
        return f"KeyValue({self._namespace!r})"


def _name(key: str) -> bytes:
    if not isinstance(key, str):
        raise OptionError(f"a key of a KeyValue must be a string, not {key!r}")
    return key.encode()

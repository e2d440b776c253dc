"""Share a mapping of bytes among all programs of a session, by `ray.experimental.internal_kv`, in a named actor."""

from __future__ import annotations

from typing import Any

import kernel

_NAME = "kernel_compat_ray.key_value"


class Store:
    """Keeps the mapping, as an actor."""

    def __init__(self) -> None:
        self.values: dict[tuple[bytes, bytes], bytes] = {}

    def put(self, space: bytes, key: bytes, value: bytes, overwrite: bool) -> bool:
        """Store a value; return whether there was one."""
        known = (space, key) in self.values
        if overwrite or not known:
            self.values[space, key] = value
        return known

    def get(self, space: bytes, key: bytes) -> bytes | None:
        """Return a value, or None."""
        return self.values.get((space, key))

    def delete(self, space: bytes, key: bytes, by_prefix: bool) -> int:
        """Forget a key, or all that begin with it; return how many."""
        gone = [place for place in self._places(space, key) if by_prefix or place[1] == key]
        for place in gone:
            del self.values[place]
        return len(gone)

    def keys(self, space: bytes, prefix: bytes) -> list[bytes]:
        """Return the keys that begin with `prefix`."""
        return [key for _, key in self._places(space, prefix)]

    def _places(self, space: bytes, prefix: bytes) -> list[tuple[bytes, bytes]]:
        return [place for place in self.values if place[0] == space and place[1].startswith(prefix)]


def _store() -> Any:
    actor = kernel.remote(name=_NAME, namespace=_NAME, lifetime="detached", get_if_exists=True)(Store)
    return actor.remote()


def _bytes(text: str | bytes | None) -> bytes:
    return text.encode() if isinstance(text, str) else text or b""


def put(key: str | bytes, value: str | bytes, overwrite: bool = True, *, namespace: str | bytes | None = None) -> bool:
    """Store a value; return whether there was one already."""
    return bool(kernel.get(_store().put.remote(_bytes(namespace), _bytes(key), _bytes(value), overwrite)))


def get(key: str | bytes, *, namespace: str | bytes | None = None) -> bytes | None:
    """Return the value of a key, or None."""
    found: bytes | None = kernel.get(_store().get.remote(_bytes(namespace), _bytes(key)))
    return found


def exists(key: str | bytes, *, namespace: str | bytes | None = None) -> bool:
    """Return whether there is a value."""
    return get(key, namespace=namespace) is not None


def delete(key: str | bytes, *, del_by_prefix: bool = False, namespace: str | bytes | None = None) -> int:
    """Forget a key, or with `del_by_prefix` all that begin with it; return how many."""
    return int(kernel.get(_store().delete.remote(_bytes(namespace), _bytes(key), del_by_prefix)))


def keys(prefix: str | bytes, *, namespace: str | bytes | None = None) -> list[bytes]:
    """Return the keys that begin with `prefix`."""
    return list(kernel.get(_store().keys.remote(_bytes(namespace), _bytes(prefix))))

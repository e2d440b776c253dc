"""Answer questions about stored values by key, packages, and the program's environment."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

from kernel_local_mode.environment import LocalEnvironments


class KeyValueAnswers:
    """Holds values of the program, by namespace and key."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, bytes], bytes] = {}

    def kv_put(self, namespace: str, key: bytes, value: bytes, overwrite: bool) -> bool:
        """Store a value; return whether it was."""
        if not overwrite and (namespace, key) in self._values:
            return False
        self._values[(namespace, key)] = value
        return True

    def kv_get(self, namespace: str, key: bytes) -> bytes | None:
        """Return a value."""
        return self._values.get((namespace, key))

    def kv_delete(self, namespace: str, key: bytes) -> bool:
        """Remove a value; return whether there was one."""
        return self._values.pop((namespace, key), None) is not None

    def kv_keys(self, namespace: str, prefix: bytes) -> list[bytes]:
        """Return the keys that begin with `prefix`."""
        return sorted(key for space, key in self._values if space == namespace and key.startswith(prefix))


class EnvironmentAnswers:
    """Receives packages in pieces, and holds the environment of tasks and actors that ask for none."""

    def __init__(self, environments: LocalEnvironments) -> None:
        self._environments = environments
        self._archives: dict[str, bytearray] = {}

    def plugin_catalog(self) -> None:
        """Return nothing: what plugins build is for workers, which are processes of their own."""

    def has_package(self, digest: str) -> bool:
        """Return whether a package is unpacked."""
        return self._environments.has(digest)

    def add_package(self, digest: str, offset: int, total: int, piece: bytes) -> None:
        """Take a piece of a package, and unpack it after the last one."""
        archive = self._archives.setdefault(digest, bytearray())
        archive[offset:] = piece
        if len(archive) == total:
            self._environments.add(digest, bytes(self._archives.pop(digest)))

    def add_environment(self, description: bytes) -> str:
        """Make an environment the one of tasks and actors that ask for none."""
        self._environments.of_program = pickle.loads(description)
        return ""

    def own_environment(self) -> Mapping[str, Any]:
        """Return the environment that the caller runs in; outside of tasks and actors, the program's."""
        return self._environments.here() or {}

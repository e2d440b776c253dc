"""Keep the controller's record in the session's key-value store, which the head keeps."""

from __future__ import annotations

import threading
import time
from collections import Counter

import kernel
from kernel_serve.control.checkpoint import Specs, record
from kernel_serve.control.state import ServeState
from kernel_serve.values import NAMESPACE, DeploymentSpec

RECORD = "controller"
_SPEC = "spec/"
PIECE_BYTES = 8 << 20
"""The largest piece in bytes. Specs hold arguments of users' classes, and may be larger than one key may hold."""


def epoch() -> float:
    """Return the time at which the clock of the state machines was at 0, in seconds of the wall clock."""
    return time.time() - time.monotonic()


class ControllerMemory:
    """Keeps the record and its specs in the store. Methods that ask the head block: call them in a thread."""

    def __init__(self) -> None:
        self.specs = Specs()
        self._store = kernel.KeyValue(NAMESPACE)
        self._stored: dict[str, int] = {}
        """The digests of specs in the store, with the number of their pieces."""
        self._read: dict[str, DeploymentSpec] = {}
        self._one_at_a_time = threading.Lock()
        self._over = False

    def read(self) -> bytes | None:
        """Return the last record, None if there is none."""
        pieces = Counter(tuple(key.split("/")[1:3]) for key in self._store.keys(_SPEC))
        self._stored = {digest: int(count) for digest, count in pieces}
        for (digest, count), found in pieces.items():
            if found != int(count):  # the process that wrote it ended before it was done
                self._delete(digest)
        return self._store.get(RECORD)

    def read_spec(self, digest: str) -> DeploymentSpec:
        """Return a spec that the record names."""
        if digest not in self._read:
            pieces = [self._store.get(key) for key in _keys(digest, self._stored.get(digest, 0))]
            if not pieces or None in pieces:
                raise KeyError(f"the spec {digest} is missing from the key-value store of the session")
            self._read[digest] = self.specs.know(digest, b"".join(piece or b"" for piece in pieces))
        return self._read[digest]

    def prepare(self, state: ServeState) -> tuple[bytes, dict[str, bytes]]:
        """Return the present record, and the specs that it names.

        It does not block; call it where the state changes.
        """
        self._read.clear()
        return record(state, self.specs, epoch()), dict(self.specs.bytes)

    def write(self, data: bytes, specs: dict[str, bytes]) -> None:
        """Write a record: first the specs that it names, last delete those that it no longer names.

        Do nothing after `clear`.
        """
        with self._one_at_a_time:
            if not self._over:
                self._write(data, specs)

    def _write(self, data: bytes, specs: dict[str, bytes]) -> None:
        for digest in specs.keys() - self._stored.keys():
            self._put(digest, specs[digest])
        self._store.put(RECORD, data)
        for digest in self._stored.keys() - specs.keys():
            self._delete(digest)

    def _put(self, digest: str, spec: bytes) -> None:
        count = max(1, -(-len(spec) // PIECE_BYTES))
        for number, key in enumerate(_keys(digest, count)):
            self._store.put(key, spec[number * PIECE_BYTES : (number + 1) * PIECE_BYTES])
        self._stored[digest] = count

    def _delete(self, digest: str) -> None:
        for key in _keys(digest, self._stored.pop(digest)):
            self._store.delete(key)

    def clear(self) -> None:
        """Delete everything, and write nothing more: a turn that was cancelled may still be about to write."""
        with self._one_at_a_time:
            self._over = True
            for key in (RECORD, *self._store.keys(_SPEC)):
                self._store.delete(key)
            self._stored = {}


def _keys(digest: str, count: int) -> list[str]:
    return [f"{_SPEC}{digest}/{count}/{number}" for number in range(count)]

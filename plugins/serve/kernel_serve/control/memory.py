"""Where a controller keeps what another life of it needs: the session's key-value store, which the head keeps."""

from __future__ import annotations

import threading
import time

import kernel
from kernel_serve.control.checkpoint import Specs, record
from kernel_serve.control.state import ServeState
from kernel_serve.values import NAMESPACE, DeploymentSpec

RECORD = "controller"
_SPEC = "spec/"


def epoch() -> float:
    """Return when the clock of the state machines was at 0, in seconds of one that all machines have."""
    return time.time() - time.monotonic()


class Memory:
    """The record and the specs that it names. The methods that ask the head block, and belong into a thread."""

    def __init__(self) -> None:
        self.specs = Specs()
        self._store = kernel.KeyValue(NAMESPACE)
        self._stored: set[str] = set()
        self._read: dict[str, DeploymentSpec] = {}
        self._one_at_a_time = threading.Lock()
        self._over = False

    def read(self) -> bytes | None:
        """Return the last record, None if there is none."""
        self._stored = {key.removeprefix(_SPEC) for key in self._store.keys(_SPEC)}
        return self._store.get(RECORD)

    def read_spec(self, digest: str) -> DeploymentSpec:
        """Return a spec that the record names."""
        if digest not in self._read:
            data = self._store.get(_SPEC + digest)
            if data is None:
                raise KeyError(f"the spec {digest} is missing from the key-value store of the session")
            self._read[digest] = self.specs.know(digest, data)
        return self._read[digest]

    def prepare(self, state: ServeState) -> tuple[bytes, dict[str, bytes]]:
        """Return the record of now, and the specs that it names. Not blocking; where the state changes."""
        self._read.clear()
        return record(state, self.specs, epoch()), dict(self.specs.bytes)

    def write(self, data: bytes, specs: dict[str, bytes]) -> None:
        """Write down a record: first what it names, last delete what it no longer names. After `clear`, nothing."""
        with self._one_at_a_time:
            if not self._over:
                self._write(data, specs)

    def _write(self, data: bytes, specs: dict[str, bytes]) -> None:
        for digest in specs.keys() - self._stored:
            self._store.put(_SPEC + digest, specs[digest])
            self._stored.add(digest)
        self._store.put(RECORD, data)
        for digest in self._stored - specs.keys():
            self._store.delete(_SPEC + digest)
        self._stored &= specs.keys()

    def clear(self) -> None:
        """Forget everything, and write nothing more: a turn that was cancelled may still be about to."""
        with self._one_at_a_time:
            self._over = True
            for key in (RECORD, *self._store.keys(_SPEC)):
                self._store.delete(key)
            self._stored = set()

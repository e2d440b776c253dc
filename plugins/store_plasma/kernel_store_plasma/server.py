"""The store's part in the node agent: the state machine, and the memory about which it decides."""

from __future__ import annotations

import contextlib
import mmap
import threading
from collections.abc import Mapping
from typing import Any

from kernel_spec.errors import ObjectStoreError
from kernel_spec.store import Location
from kernel_store_plasma.arena import Arena, map_arena
from kernel_store_plasma.machine import StoreMachine


class PlasmaServer(StoreMachine):
    """Implements `kernel_spec.store.StoreServer`. It owns the arena, and maps it only when something is spilled."""

    name = "plasma"

    def __init__(self, arena: Arena) -> None:
        super().__init__(arena.capacity)
        self._arena = arena
        self._lock = threading.Lock()
        self._mapping: mmap.mmap | None = None

    def view(self, location: Location, size: int) -> memoryview:
        """Return the object's memory, writable, for spilling and restoring (any thread)."""
        with self._lock:
            if self._mapping is None:
                if self._arena.descriptor < 0:
                    raise ObjectStoreError("the object store is closed; its session is over")
                access = mmap.PROT_READ | mmap.PROT_WRITE
                self._mapping = map_arena(self._arena.descriptor, self._arena.bytes, access)
            return memoryview(self._mapping)[location : location + size]

    def descriptors(self) -> list[int]:
        """Return the arena's descriptor; it stays the server's."""
        return [self._arena.descriptor]

    def client_options(self) -> Mapping[str, Any]:
        """Return how much a client has to map."""
        return {"bytes": self._arena.bytes}

    def close(self) -> None:
        """Give the memory back as soon as no client maps it. Calling it again does nothing."""
        with self._lock:
            mapping, self._mapping = self._mapping, None
            self._arena.close()
        if mapping is not None:
            # A spill in progress keeps its view, and with it the mapping, until it is done.
            with contextlib.suppress(BufferError):
                mapping.close()

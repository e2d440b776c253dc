"""The two factories of the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernel_store_plasma.arena import open_arena
from kernel_store_plasma.client import PlasmaClient

if TYPE_CHECKING:
    from kernel_store_plasma.server import PlasmaServer


class PlasmaStore:
    """Stores objects in shared memory, with zero-copy reads and spilling. See `kernel_spec.store.ObjectStore`."""

    name = "plasma"

    def open_server(self, capacity: int, directory: str | None = None) -> PlasmaServer:
        """Make the arena (in `directory`, if given) and the server around it.

        Raises `ObjectStoreError` when the directory is missing or too small, or the machine has less memory.
        """
        from kernel_store_plasma.server import PlasmaServer  # Only one process of a node needs it.

        return PlasmaServer(open_arena(capacity, directory))

    def open_client(self, descriptors: Sequence[int], options: Mapping[str, Any]) -> PlasmaClient:
        """Make a client from what the server said; it owns the one descriptor."""
        (descriptor,) = descriptors
        return PlasmaClient(descriptor, int(options["bytes"]))

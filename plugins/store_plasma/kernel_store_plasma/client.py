"""The store's part in every process that reads or writes a large object: it turns offsets into memory.

The arena is mapped twice, on first use: writable for the objects this process creates, and read-only for those it
reads, so that the processor refuses to write into a value.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

from kernel_spec.errors import ObjectStoreError
from kernel_store_plasma.arena import map_arena


class _Watch(weakref.ref):  # type: ignore[type-arg]
    """Is a weak reference to an exporter, with the function that is called when the exporter is gone."""

    __slots__ = ("released",)
    released: Callable[[], None]


class PlasmaClient:
    """Maps the arena behind `descriptor` (owned) of `size` bytes. Any thread may call it."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self._size = size
        self._lock = threading.RLock()  # A destructor that runs during the mapping may need the arena.
        self._closed = False
        self._writable: memoryview | None = None
        self._readable: mmap.mmap | None = None
        self._array_of: Any = None
        self._byte: Any = None
        self._watches: dict[int, _Watch] = {}
        self._on_gone = self._make_callback()

    def writable(self, location: int, size: int) -> memoryview:
        """Return the memory of an object being created."""
        if self._writable is None:
            self._map()
        return self._writable[location : location + size]  # type: ignore[index]

    def readable(self, location: int, size: int, released: Callable[[], None]) -> memoryview:
        """Return a read-only view without a copy; call `released` once when the last view of it is gone.

        The array in between is what every slice, array and Arrow buffer made from the view keeps alive.
        """
        if self._array_of is None:
            self._map()
        array = self._array_of(self._readable, self._byte, size, location)
        watch = _Watch(array, self._on_gone)
        watch.released = released
        self._watches[id(watch)] = watch
        return memoryview(array)

    def close(self) -> None:
        """Unmap the arena, and close its descriptor. Views that were handed out stay valid until they are gone."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            readable, self._readable, self._writable, self._array_of = self._readable, None, None, None
            os.close(self._descriptor)
        if readable is not None:
            # A living view keeps the mapping, which is unmapped by itself when the view is gone.
            with contextlib.suppress(BufferError):
                readable.close()

    def _map(self) -> None:
        import numpy

        with self._lock:
            if self._closed:
                raise ObjectStoreError("this process has closed its object store; its session is over")
            if self._array_of is not None:
                return
            writable = map_arena(self._descriptor, self._size, mmap.PROT_READ | mmap.PROT_WRITE)
            self._readable = map_arena(self._descriptor, self._size, mmap.PROT_READ)
            self._writable = memoryview(writable)
            self._byte = numpy.dtype(numpy.uint8)
            self._array_of = numpy.frombuffer

    def _make_callback(self) -> Callable[[_Watch], None]:
        # Closes over the dictionary, not the client: a view that outlives the client still reports its end.
        watches = self._watches

        def on_gone(watch: _Watch) -> None:
            del watches[id(watch)]
            watch.released()

        return on_gone

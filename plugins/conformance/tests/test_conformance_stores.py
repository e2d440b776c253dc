"""Wrong object stores: the suite that plugin authors run must fail every one of them.

Those of this file never spill; wrong ones that do are beside the store that does.
"""

from __future__ import annotations

import gc
import mmap
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy
import pytest
from kernel_conformance.object_store import ObjectStoreConformance

from kernel.defaults.object_store import LocalObjectClient, LocalObjectServer, LocalObjectStore
from kernel.testing.first_failure import first_failure
from kernel_spec.store import (
    Location,
)
from plugins.conformance.tests.wrong_stores import SERVERS, Server


class Client(LocalObjectClient):
    """Right."""


def store(server: type[LocalObjectServer] = Server, client: type[LocalObjectClient] = Client) -> Callable[[], Any]:
    """Return what makes stores of two halves."""

    class Store(LocalObjectStore):
        def open_server(self, capacity: int, directory: str | None = None) -> LocalObjectServer:
            super().open_server(capacity, directory).close()
            return server(capacity)

        def open_client(self, descriptors: Sequence[int], options: Mapping[str, Any]) -> LocalObjectClient:
            return client(super().open_client(descriptors, options)._memory)

    return Store


class WritesApart(Client):
    """Writes into memory of its own process."""

    def __init__(self, memory: Any) -> None:
        super().__init__(memory)
        memory._map = mmap.mmap(memory.descriptor, memory.length, mmap.MAP_PRIVATE)


class ViewsMayBeWritten(Client):
    def readable(self, location: Location, size: int, released: Callable[[], None]) -> memoryview:
        array: Any = numpy.frombuffer(self.writable(location, size), numpy.uint8)
        weakref.finalize(array, released).atexit = False
        return memoryview(array)


class Copies(Client):
    """Reads a copy."""

    def readable(self, location: Location, size: int, released: Callable[[], None]) -> memoryview:
        array: Any = numpy.frombuffer(bytes(self.writable(location, size)), numpy.uint8)
        weakref.finalize(array, released).atexit = False
        return memoryview(array)


class ReleasesNever(Client):
    def readable(self, location: Location, size: int, released: Callable[[], None]) -> memoryview:
        return super().readable(location, size, lambda: None)


class ReleasesAtOnce(Client):
    def readable(self, location: Location, size: int, released: Callable[[], None]) -> memoryview:
        released()
        return super().readable(location, size, lambda: None)


class ReleasesTwice(Client):
    def readable(self, location: Location, size: int, released: Callable[[], None]) -> memoryview:
        return super().readable(location, size, lambda: (released(), released())[0])


class ReleasesAtTheEnd(Client):
    """Tells of views when it is closed."""

    def __init__(self, memory: Any) -> None:
        super().__init__(memory)
        self._views: list[Any] = []

    def readable(self, location: Location, size: int, released: Callable[[], None]) -> memoryview:
        self._views.append(super().readable(location, size, released))
        return memoryview(self._views[-1])

    def close(self) -> None:
        self._views.clear()
        gc.collect()
        super().close()


class ForgetsItsViews(Client):
    """Tells nobody of views that end after it was closed."""

    closed = False

    def readable(self, location: Location, size: int, released: Callable[[], None]) -> memoryview:
        return super().readable(location, size, lambda: None if self.closed else released())

    def close(self) -> None:
        self.closed = True
        super().close()


class Items(Client):
    """Views are of signed bytes."""

    def readable(self, location: Location, size: int, released: Callable[[], None]) -> memoryview:
        return super().readable(location, size, released).cast("b")


CLIENTS = [
    WritesApart, ViewsMayBeWritten, Copies, ReleasesNever, ReleasesAtOnce, ReleasesTwice, ReleasesAtTheEnd,
    ForgetsItsViews, Items,
]  # fmt: skip


def failed(make: Callable[[], Any]) -> str | None:
    """Return the name of the first test that a store fails."""
    suite = type("Suite", (ObjectStoreConformance,), {"make_store": staticmethod(make), "spills": False})
    return first_failure(suite)


@pytest.mark.parametrize("server", SERVERS, ids=[mutant.__name__ for mutant in SERVERS])
def test_a_wrong_server_fails_the_suite_of_object_stores(server: type[LocalObjectServer]) -> None:
    assert failed(store(server)) is not None


@pytest.mark.parametrize("client", CLIENTS, ids=[mutant.__name__ for mutant in CLIENTS])
def test_a_wrong_client_fails_the_suite_of_object_stores(client: type[LocalObjectClient]) -> None:
    assert failed(store(client=client)) is not None


def test_the_store_that_they_were_made_from_passes() -> None:
    assert failed(store()) is None

"""The in-process reference store passes the suite of every store."""

from __future__ import annotations

import pytest

from kernel.local.object_store import LocalObjectStore
from kernel.testing.object_store import ObjectStoreConformance
from kernel_spec.errors import ObjectStoreError


class TestLocalObjectStore(ObjectStoreConformance):
    make_store = staticmethod(LocalObjectStore)
    spills = False
    shares_memory = False


def test_a_directory_is_refused() -> None:
    with pytest.raises(ObjectStoreError, match="keeps nothing in files"):
        LocalObjectStore().open_server(100, "/tmp")


def test_a_client_of_another_process_is_refused() -> None:
    server = LocalObjectStore().open_server(100)
    with pytest.raises(ObjectStoreError, match="this is another one"):
        LocalObjectStore().open_client([], server.client_options())

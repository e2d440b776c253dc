"""The reference store passes the suite of every store, and serves a session."""

from __future__ import annotations

import pytest

from kernel.local.object_store import LocalObjectStore
from kernel.testing.object_store import ObjectStoreConformance
from kernel_spec.errors import ObjectStoreError


class TestLocalObjectStore(ObjectStoreConformance):
    make_store = staticmethod(LocalObjectStore)
    spills = False


def test_a_directory_is_refused() -> None:
    with pytest.raises(ObjectStoreError, match="keeps nothing in files"):
        LocalObjectStore().open_server(100, "/tmp")

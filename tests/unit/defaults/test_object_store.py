"""The reference store passes the suite of every store, and serves a session."""

from __future__ import annotations

import mmap
from typing import Any

import pytest

from kernel.conformance.object_store import ObjectStoreConformance
from kernel.defaults.object_store import LocalObjectStore
from kernel_spec.errors import ObjectStoreError


class TestLocalObjectStore(ObjectStoreConformance):
    make_store = staticmethod(LocalObjectStore)
    spills = False


def test_a_directory_is_refused() -> None:
    with pytest.raises(ObjectStoreError, match="keeps nothing in files"):
        LocalObjectStore().open_server(100, "/tmp")


def test_a_destructor_amid_the_first_mapping_may_use_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    server = LocalObjectStore().open_server(100)
    mapping = mmap.mmap

    def interrupted(*arguments: Any) -> mmap.mmap:
        monkeypatch.setattr(mmap, "mmap", mapping)
        server.view(1, 2)[:] = b"bc"
        return mapping(*arguments)

    monkeypatch.setattr(mmap, "mmap", interrupted)
    server.view(0, 1)[:] = b"a"
    assert bytes(server.view(0, 3)) == b"abc"
    server.close()

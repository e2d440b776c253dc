"""The metadata store in memory keeps the contract."""

from __future__ import annotations

from kernel.conformance.metadata_store import MetadataStoreConformance
from kernel.defaults.metadata import LocalMetadataStore


class TestLocal(MetadataStoreConformance):
    make_store = staticmethod(LocalMetadataStore)


def test_nothing_is_written_and_nothing_is_promised() -> None:
    store = LocalMetadataStore("/nonexistent")
    store.put("table", b"key", b"value")
    assert store.name == "memory" and store.durable is False

"""Plasma passes the suite of every store."""

from __future__ import annotations

from kernel_store_plasma import PlasmaStore

from kernel.conformance.object_store import ObjectStoreConformance


class TestPlasma(ObjectStoreConformance):
    make_store = staticmethod(PlasmaStore)

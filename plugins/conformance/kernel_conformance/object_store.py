"""The conformance suite for object stores: what every store promises, tried through the contract alone.

    class TestMyStore(ObjectStoreConformance):
        make_store = staticmethod(lambda: MyStore())

Say what yours can do by class attributes, such as `spills = False`; they stand in
`kernel_conformance.object_store_suite`. Tests of what it can't do return at once.
"""

from __future__ import annotations

from collections.abc import Callable

from kernel_conformance.object_store_objects import ObjectLives
from kernel_conformance.object_store_pressure import FullStores
from kernel_conformance.object_store_views import StoreViews
from kernel_spec.store import ObjectStore


class ObjectStoreConformance(ObjectLives, FullStores, StoreViews):
    """Subclass it, name your store, run pytest."""

    make_store: Callable[[], ObjectStore]
    """Makes the store under test."""

"""The hooks of this distribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kernel_spec import hookimpl
from kernel_spec.store import ObjectStore
from kernel_store_plasma.store import PlasmaStore


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Written for the first version of the object store contract."""
    return {"object_store": 1}


@hookimpl
def kernel_object_stores() -> Mapping[str, Callable[[], ObjectStore]]:
    """Offer `plasma`."""
    return {"plasma": PlasmaStore}

"""The hooks of this distribution. fsspec is imported when the target is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from kernel_spec.hooks import hookimpl
from kernel_spec.spill import SpillTarget

NOTHING: Mapping[str, Any] = MappingProxyType({})


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Say which contract this was written for."""
    return {"spill_target": 1}


@hookimpl
def kernel_spill_targets() -> Mapping[str, Callable[[str], SpillTarget]]:
    """Offer the spill target `fsspec`."""
    return {"fsspec": open_target}


def open_target(
    place: str,
    *,
    step_seconds: float = 20.0,
    patience_seconds: float = 30.0,
    storage_options: Mapping[str, Any] = NOTHING,
) -> SpillTarget:
    """Make the target for the URL or path `place`; raise SpillError when nothing can be written there.

    A step (moving 16 MiB, deleting a batch) may take `step_seconds`. One that fails for what may pass is repeated for
    up to `patience_seconds`. `storage_options` are the file system's own, beyond what it takes from its environment.
    """
    from kernel_spill_fsspec.target import FsspecSpill

    return FsspecSpill(
        place, step_seconds=step_seconds, patience_seconds=patience_seconds, storage_options=storage_options
    )

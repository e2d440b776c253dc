"""The hooks of this distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernel_accelerator_nvidia.accelerator import NvidiaAccelerator
from kernel_spec.accelerators import Accelerator
from kernel_spec.hooks import hookimpl


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Say which contract this was written for."""
    return {"accelerator": 1}


@hookimpl
def kernel_accelerators() -> Sequence[Accelerator]:
    """Offer NVIDIA GPUs as the resource `GPU`."""
    return [NvidiaAccelerator()]

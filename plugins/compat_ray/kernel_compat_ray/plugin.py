"""What this distribution offers to the kernel."""

from __future__ import annotations

from collections.abc import Mapping

from kernel_spec.hooks import hookimpl


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Say which contract this was written for."""
    return {"cli_command": 1}

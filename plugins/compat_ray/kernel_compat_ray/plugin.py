"""What this distribution offers to the kernel."""

from __future__ import annotations

from collections.abc import Mapping

import click

from kernel_compat_ray.ray_command import ray_cli
from kernel_compat_ray.run_command import ray_run
from kernel_spec.hooks import hookimpl


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Say which contract this was written for."""
    return {"cli_command": 1}


@hookimpl
def kernel_cli_commands() -> list[click.Command]:
    """Offer `kernel ray-run` and `kernel ray-cli`."""
    return [ray_run, ray_cli]

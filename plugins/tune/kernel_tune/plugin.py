"""What this distribution offers to the kernel. The commands are imported when a command line needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kernel_spec.hooks import hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Return the version of the contract that this was written for."""
    return {"cli_command": 1}


@hookimpl
def kernel_cli_commands() -> Sequence[click.Command]:
    """Offer `kernel tune`."""
    from kernel_tune.cli.main import tune

    return [tune]

"""The hooks of this distribution. The commands are imported when a command line asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kernel_spec.hooks import hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Say which contract this was written for."""
    return {"cli_command": 1}


@hookimpl
def kernel_cli_commands() -> Sequence[click.Command]:
    """Offer `kernel rllib`."""
    from kernel_rllib.cli.main import rllib

    return [rllib]

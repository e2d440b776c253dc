"""The hooks by which this distribution offers its commands to the kernel.

They are imported when a command line needs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kernel_spec.hooks import hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Return the versions of the contracts that this is written for."""
    return {"cli_command": 1}


@hookimpl
def kernel_cli_commands() -> Sequence[click.Command]:
    """Return the command `kernel serve`."""
    from kernel_serve.cli.main import serve

    return [serve]

"""What this distribution offers to the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from kernel_hello.command import hello
from kernel_hello.observer import Greeter
from kernel_spec import hookimpl
from kernel_spec.observers import Observer


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Say which version of which contract this was written for."""
    return {"cli_command": 1, "observer": 1}


@hookimpl
def kernel_cli_commands() -> Sequence[click.Command]:
    """Offer `kernel hello`."""
    return [hello]


@hookimpl
def kernel_observers() -> Sequence[Observer]:
    """Offer an observer that greets workers."""
    return [Greeter()]

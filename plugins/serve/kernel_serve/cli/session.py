"""Join the session that a command is about."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from kernel_serve.errors import NotServingError

address_option: Callable[[Any], Any] = click.option(
    "--address",
    metavar="ADDRESS",
    help="The session: its name or directory, or HOST:PORT of its cluster (default: KERNEL_ADDRESS, else the newest).",
)


def join(address: str | None) -> None:
    """Join the session. Raises NotServingError if no session is found."""
    import kernel  # Imported here: commands without a session start without it.

    if kernel.is_initialized():
        return
    try:
        kernel.init(address=address or os.environ.get("KERNEL_ADDRESS") or "auto", log_to_driver=False)
    except kernel.exceptions.SessionEndedError as error:
        raise NotServingError(str(error)) from error


def join_or_start(address: str | None) -> bool:
    """Join the session, or start one for this command alone; return whether it was started."""
    import kernel

    if kernel.is_initialized():
        return False
    try:
        join(address)
    except NotServingError:
        if address or os.environ.get("KERNEL_ADDRESS"):
            raise
        kernel.init(log_to_driver=True)
        return True
    return False

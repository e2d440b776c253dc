"""The directory in which a program runs, in which its `kernel.toml` and the modules of its tasks are looked for."""

from __future__ import annotations

import os

from kernel_spec.errors import UsageError


def working_directory() -> str:
    """Return the working directory of this process. Raises UsageError, with its name, when it was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        try:
            name = os.readlink("/proc/self/cwd").removesuffix(" (deleted)") + " "
        except OSError:
            name = ""
        raise UsageError(
            f"the working directory {name}of this program was deleted; change to one that is there, and try again"
        ) from None

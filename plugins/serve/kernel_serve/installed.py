"""Load what other distributions add to Serve by entry points."""

from __future__ import annotations

import importlib.metadata
from typing import Any

from kernel_serve.logs import logger

_log = logger()


def load_installed(group: str, lost: str, make: bool = False) -> list[Any]:
    """Return what the entry points of a group lead to, in the order of their names; with `make`, what calling it makes.

    One that can't be loaded or made is left out, with a warning that begins with `lost`: what does not work without it.
    """
    found = []
    offered = {point.name: point for point in importlib.metadata.entry_points(group=group)}
    for _, point in sorted(offered.items()):
        try:
            loaded = point.load()
            found.append(loaded() if make else loaded)
        except Exception as error:
            _log.warning(
                f"{lost}: the entry point {point.name!r} can't be loaded; reinstall its distribution, or uninstall it",
                entry_point=point.value,
                error=repr(error),
            )
    return found

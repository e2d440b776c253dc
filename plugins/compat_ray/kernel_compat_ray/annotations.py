"""`ray.util.annotations`: marks that change nothing."""

from __future__ import annotations

from typing import Any


def unchanged(*args: Any, **options: Any) -> Any:
    """Return what is decorated as it is, also when the mark is given options."""
    return args[0] if len(args) == 1 and not options and callable(args[0]) else lambda target: target

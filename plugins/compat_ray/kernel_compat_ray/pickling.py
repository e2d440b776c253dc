"""Asking why something can't be pickled."""

from __future__ import annotations

from typing import Any

import cloudpickle


def inspect_serializability(
    base_obj: Any, name: str | None = None, depth: int = 3, print_file: Any = None
) -> tuple[bool, set[str]]:
    """Return whether a value can be sent, and the reasons why not."""
    try:
        cloudpickle.dumps(base_obj)
    except Exception as error:  # whatever a reducer of the value raises
        return False, {f"{name or base_obj!r}: {error}"}
    return True, set()

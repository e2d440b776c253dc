"""A config as JSON could have it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from kernel_rllib.config.settings import Settings

NOT_SERIALIZABLE = "__not_serializable__"
"""The text in place of a value that has no text. A dict with this text leaves the setting as it is."""


def is_marker(value: Any) -> bool:
    """Return whether a value stands for one that could not be written."""
    return isinstance(value, str) and value == NOT_SERIALIZABLE


def serialized(value: Any) -> Any:
    """Return a value made of dicts, lists, texts, numbers, True, False and None."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Settings):
        return {name: serialized(each) for name, each in value.set_values().items()}
    if isinstance(value, Mapping):
        return {str(key): serialized(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [serialized(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return [serialized(each) for each in sorted(value, key=str)]
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return value.tolist()
    return _path(value) or NOT_SERIALIZABLE


def _path(value: Any) -> str | None:
    """Return the dotted path of what can be imported by it."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not module or not name or module == "__main__":
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}.{name}" if found is value else None

"""Knowing what stands for a value that a search still has to choose, of whatever library."""

from __future__ import annotations

from typing import Any


def is_search_space(value: Any) -> bool:
    """Return whether a value is a grid (`{"grid_search": [...]}`) or a domain, such as `tune.uniform(0, 1)`.

    A domain is known by its two methods, so that no library for searching is imported here.
    """
    if isinstance(value, dict):
        return len(value) == 1 and "grid_search" in value
    kind = type(value)  # Looked up in the class, as an object may answer to any name.
    return hasattr(kind, "domain_str") and callable(getattr(kind, "sample", None))


def has_search_space(value: Any) -> bool:
    """Return whether a value is a search space, or a dict, list or tuple that has one somewhere inside."""
    if is_search_space(value):
        return True
    if isinstance(value, dict):
        return any(map(has_search_space, value.values()))
    return isinstance(value, (list, tuple)) and any(map(has_search_space, value))

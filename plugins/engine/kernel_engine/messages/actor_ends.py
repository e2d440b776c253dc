"""Describe to an actor's callers why it has ended."""

from __future__ import annotations


def no_handles(name: str) -> str:
    """Return why an actor ended that has no handles any more; `name` is that it was found by, empty if it has none."""
    found_by_name = ' (one that was found by its name does not keep it; lifetime="detached" does)' if name else ""
    return f"all handles to it went out of scope{found_by_name}"

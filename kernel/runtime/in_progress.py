"""The serialization in progress in this thread: references that a value holds, and the origin of an arriving value.

Pickle passes `__reduce__` and rebuilding functions no argument for this; they look here.
"""

from __future__ import annotations

import threading
from typing import Any


class _InProgress(threading.local):
    captured: list[Any] | None = None
    context: Any = None


in_progress = _InProgress()


def note_reference(reference: Any) -> bool:
    """Add `reference` to those met by the innermost `dumps` in progress in this thread.

    Called from `__reduce__` of what must be counted when it travels. Returns False when no `dumps` of the kernel is
    in progress, but some other pickling: the caller decides what that means.
    """
    captured = in_progress.captured
    if captured is None:
        return False
    captured.append(reference)
    return True


def current_load() -> Any:
    """Return the `context` of the innermost `loads` in progress in this thread that was given one, else None."""
    return in_progress.context


class Capture:
    """Collect the references of `note_reference` in this thread while it is entered; may be nested."""

    __slots__ = ("_before", "captured")

    def __enter__(self) -> list[Any]:
        self._before = in_progress.captured
        self.captured: list[Any] = []
        in_progress.captured = self.captured
        return self.captured

    def __exit__(self, *error: object) -> None:
        in_progress.captured = self._before

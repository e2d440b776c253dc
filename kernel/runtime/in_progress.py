"""What this thread is serializing: references met on the way out, and where a value came from on the way in.

Pickle gives `__reduce__` and rebuilding functions no argument to say so; this is how they know.
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
    in progress (somebody pickles by other means): the caller decides what that means.
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
    """Collects what `note_reference` is told in this thread while it is entered; may be nested."""

    __slots__ = ("_before", "captured")

    def __enter__(self) -> list[Any]:
        self._before = in_progress.captured
        self.captured: list[Any] = []
        in_progress.captured = self.captured
        return self.captured

    def __exit__(self, *error: object) -> None:
        in_progress.captured = self._before

"""Read the stack of every thread of this process, for `kernel stack` where it can't be read from outside."""

from __future__ import annotations

import sys
import threading

ThreadStack = tuple[int, str, list[tuple[str, str, int]]]
"""A thread's number and name, and its frames, innermost first: function, file, line."""


def thread_stacks() -> list[ThreadStack]:
    """Return the Python stacks of all threads, the main one first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    stacks: list[ThreadStack] = []
    for ident, frame in sorted(sys._current_frames().items(), key=lambda one: one[0] != main):
        frames = []
        current = frame
        while current is not None:
            code = current.f_code
            frames.append((getattr(code, "co_qualname", code.co_name), code.co_filename, current.f_lineno or 0))
            current = current.f_back  # type: ignore[assignment]
        stacks.append((ident, names.get(ident, "unknown"), frames))
    return stacks

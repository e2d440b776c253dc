"""Set the title of a process, which `ps` shows: what it is, and what a worker does.

The text is written over the arguments that the process was started with, which is where `ps` reads them. A forked
process has the same place.
"""

from __future__ import annotations

import ctypes
import sys

PREFIX = "kernel: "
IDLE_SECONDS = 0.5
"""Seconds without work after which a worker's title says idle."""


def show(text: str) -> None:
    """Have `ps` show `text`, cut to the room there is; nothing happens where that is not possible."""
    start, size = _place()
    if size:
        ctypes.memmove(start, fitting(text, size - 1).ljust(size, b"\0"), size)


def fitting(text: str, size: int) -> bytes:
    """Return as many characters of `text` as fit into `size` bytes, none of them in part."""
    return text.encode(errors="replace")[:size].decode(errors="ignore").encode()


class WorkerTitle:
    """The part of a worker's title that says what it does: the function that it runs or ran last, or its actor."""

    def __init__(self) -> None:
        self.is_worker = False
        """Whether this process is a worker: the title of a program is not changed."""
        self.is_idle = False
        self._actor = False
        self._shown = ""

    def task(self, name: str) -> None:
        """A call of the function `name` begins."""
        self.is_idle = False
        if name != self._shown and not self._actor:
            self._shown = name
            self._show(f"{name}()")

    def idle(self) -> None:
        """There is nothing to do."""
        self.is_idle = True
        if not self._actor:
            self._shown = ""
            self._show("idle worker")

    def actor(self, class_name: str, name: str, starting: bool) -> None:
        """The worker is an actor from now on; `starting`: its constructor runs."""
        self._actor = self.is_idle = True
        named = f" {name}" if name else ""
        self._show(f"{class_name}{named}{' (starting)' if starting else ''}")

    def say(self, text: str) -> None:
        """Show what user code says that it does; only in a worker."""
        self._shown = ""
        self._show(text)

    def _show(self, text: str) -> None:
        if self.is_worker:
            show(PREFIX + text)


worker_title = WorkerTitle()

_found: tuple[int, int] | None = None


def _place() -> tuple[int, int]:
    """Return where the arguments of this process are, and how many bytes; (0, 0) where that is not known."""
    global _found
    if _found is None:
        _found = _look_for_place()
    return _found


def _look_for_place() -> tuple[int, int]:
    if not sys.platform.startswith("linux"):
        return 0, 0
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[45]), int(fields[46])
    except (OSError, IndexError, ValueError):
        return 0, 0
    return (start, end - start) if 0 < start < end else (0, 0)

"""Record which calls ran when in this process, in a bounded ring that is read only for a timeline."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Mapping
from itertools import takewhile
from typing import Any, Final

KEPT = 20_000
"""The number of finished calls and profiled spans that a process keeps."""

FAILED: Final[Mapping[str, Any]] = {"failed": True}
"""The `extra` of a call that raised or was cancelled."""
ERROR_LETTERS = 300
"""The number of characters of an error's text that are kept."""


def failure_of(error: BaseException) -> Mapping[str, Any]:
    """Return the `extra` of a call that raised `error`."""
    try:
        text = str(error)
    except Exception:  # The user's code may raise anything.
        text = "(its text can't be had)"
    return {**FAILED, "error": f"{type(error).__name__}: {text}"[:ERROR_LETTERS]}


class CallTrace:
    """Holds the last calls of this process. Adding one costs a tenth of a microsecond."""

    def __init__(self) -> None:
        self._ring: deque[tuple[Any, ...]] = deque(maxlen=KEPT)
        self._functions: dict[str, str] = {}
        self._told: tuple[Any, ...] | None = None
        self.is_followed = False
        """Whether new calls are collected by the agent."""

    def add(self, name: str, begun: float, ended: float, task: bytes, extra: Mapping[str, Any] | None = None) -> None:
        """Note a finished call; times are seconds since the epoch."""
        self._ring.append((name, begun, ended, task, threading.get_ident(), extra))

    def note_function(self, name: str, function: Any) -> None:
        """Remember which function goes by `name`, where that is not its own; not for ever, should names have no end."""
        own = getattr(function, "__name__", name)
        if own != name:
            if len(self._functions) >= KEPT:
                self._functions.clear()
            self._functions[name] = own

    def new_calls(self) -> list[tuple[str, str, float, float, bool]]:
        """Return the calls added since this was last asked: id, name, begin, end, whether it failed.

        Those that fell out of the ring meanwhile are missing.
        """
        self.is_followed = True
        new = list(takewhile(lambda entry: entry is not self._told, reversed(list(self._ring))))
        if new:
            self._told = new[0]
        return [
            (task.hex(), name, begun, ended, extra is not None and "failed" in extra)
            for name, begun, ended, task, _, extra in reversed(new)
            if task
        ]

    def events(self, most: int = KEPT) -> list[dict[str, Any]]:
        """Return the last calls, at most `most`, as Chrome trace events."""
        pid, functions = os.getpid(), self._functions
        return [
            {
                "name": name,
                "cat": "task" if task else "profile",
                "ph": "X",
                "ts": begun * 1e6,
                "dur": (ended - begun) * 1e6,
                "pid": pid,
                "tid": thread % 100_000,
                "args": {
                    "task_id": task.hex(),
                    **({"function": own} if (own := functions.get(name)) else {}),
                    **(extra or {}),
                },
            }
            for name, begun, ended, task, thread, extra in list(self._ring)[-most:]
        ]

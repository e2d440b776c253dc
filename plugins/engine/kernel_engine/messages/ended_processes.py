"""Processes that have ended, as another process remembers them: the latest of them."""

from __future__ import annotations

from kernel_spec.ids import ProcessId


class EndedProcesses:
    """The latest `kept` of them: a process that lives long meets any number of those that do not."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._known: dict[ProcessId, None] = {}

    def __contains__(self, process: object) -> bool:
        return process in self._known

    def __len__(self) -> int:
        return len(self._known)

    def add(self, process: ProcessId) -> None:
        """Remember an ended process; of too many, the earliest is forgotten."""
        self._known[process] = None
        if len(self._known) > self._kept:
            del self._known[next(iter(self._known))]

    def discard(self, process: ProcessId) -> None:
        """It was only out of reach."""
        self._known.pop(process, None)

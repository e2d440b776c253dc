"""Remember the latest of the processes that a process knows to have ended."""

from __future__ import annotations

from kernel_spec.ids import ProcessId


class EndedProcesses:
    """Remembers the latest `kept` ended processes, so that the memory of a long-lived process does not grow."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._known: dict[ProcessId, None] = {}

    def __contains__(self, process: object) -> bool:
        return process in self._known

    def __len__(self) -> int:
        return len(self._known)

    def add(self, process: ProcessId) -> None:
        """Remember an ended process. If there are too many, forget the earliest."""
        self._known[process] = None
        if len(self._known) > self._kept:
            del self._known[next(iter(self._known))]

    def discard(self, process: ProcessId) -> None:
        """Forget a process that was only out of reach."""
        self._known.pop(process, None)

"""Which processes have ended, of those that may own objects: the latest of them."""

from __future__ import annotations

from kernel_spec.ids import ProcessId

KEPT = 1000
"""How many are remembered. Who asks one that is forgotten finds out once more that nobody is there."""


class DeadOwners:
    """Processes that have ended. A process that lives long meets any number of those that do not."""

    def __init__(self) -> None:
        self._known: dict[ProcessId, None] = {}

    def __contains__(self, process: ProcessId) -> bool:
        return process in self._known

    def __len__(self) -> int:
        return len(self._known)

    def add(self, process: ProcessId) -> None:
        """It has ended. Of too many, the one that was heard of first is forgotten."""
        self._known[process] = None
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]

    def discard(self, process: ProcessId) -> None:
        """It was only out of reach."""
        self._known.pop(process, None)

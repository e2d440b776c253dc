"""Processes that have ended, on any node: nothing is stored for them any more."""

from __future__ import annotations

from collections import OrderedDict

from kernel_spec.ids import ProcessId

KEPT = 100_000
"""How many are remembered."""


class Departed:
    """The latest of them."""

    def __init__(self) -> None:
        self._processes: OrderedDict[ProcessId, None] = OrderedDict()

    def __contains__(self, process: object) -> bool:
        return process in self._processes

    def add(self, process: ProcessId) -> None:
        """Remember one, and forget who is remembered longest."""
        self._processes[process] = None
        if len(self._processes) > KEPT:
            self._processes.popitem(last=False)

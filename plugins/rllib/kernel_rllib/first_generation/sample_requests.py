"""Samples that workers elsewhere were asked for and that have not come yet, a few of each worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import kernel


class SampleRequests:
    """Keeps each worker busy: it is asked for the next sample before the last one was used."""

    def __init__(self, in_flight: int) -> None:
        """Ask each worker for so many samples at a time."""
        self._in_flight = in_flight
        self._asked: dict[kernel.ObjectRef, Any] = {}

    def ask(self, workers: Sequence[Any]) -> None:
        """Ask each of these for as many samples as are missing, and drop those of other workers."""
        self._asked = {ref: worker for ref, worker in self._asked.items() if worker in workers}
        for worker in workers:
            missing = self._in_flight - sum(asked == worker for asked in self._asked.values())
            for _ in range(missing):
                self._asked[worker.sample.remote()] = worker

    def next(self) -> tuple[Any, kernel.ObjectRef]:
        """Wait for a sample, and return the worker and the reference to it."""
        (first, *_), _ = kernel.wait(list(self._asked), num_returns=1)
        return self._asked.pop(first), first

    def drop(self) -> None:
        """Wait for none of them any more."""
        self._asked.clear()

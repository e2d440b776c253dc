"""Telling observer plugins what happens, in batches, after the fact."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel.logs import Logger
from kernel_spec.observers import LifecycleEvent, Observer


class Observation:
    """Collects events while there are observers; costs nothing without."""

    def __init__(self, observers: Sequence[Observer], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._collected = 0.0
        self._seen: dict[bytes, int] = {}
        self._observers = list(observers)
        self._events: list[LifecycleEvent] = []

    @property
    def active(self) -> bool:
        """Whether anybody listens."""
        return bool(self._observers)

    def note(self, kind: str, state: str, id: bytes, time: float, detail: Mapping[str, Any]) -> None:
        """Add an event."""
        if self._observers:
            self._events.append(LifecycleEvent(kind, state, id.hex(), time, detail))

    def collect(self, seconds: float) -> bool:
        """Return whether it is time to ask the processes for their calls (once in `seconds`, if anybody listens)."""
        if not self._observers or self._clock() - self._collected < seconds:
            return False
        self._collected = self._clock()
        return True

    def note_calls(self, worker: bytes, answer: Any) -> None:
        """Add the calls that a worker has finished since it was last asked."""
        if answer is None:
            self._seen.pop(worker, None)
            return
        self._seen[worker], calls = answer
        for id, name, begun, ended in calls:
            detail = {"name": name, "seconds": ended - begun, "worker": worker.hex()}
            self._events.append(LifecycleEvent("task", "FINISHED", id, ended, detail))

    def seen(self, worker: bytes) -> int:
        """Return how many calls of a worker are known."""
        return self._seen.get(worker, 0)

    def deliver(self) -> None:
        """Hand over what was collected; an observer that raises is reported once and asked no more."""
        if not self._events:
            return
        events, self._events = self._events, []
        for observer in list(self._observers):
            try:
                observer.observe(events)
            except Exception as error:
                self._observers.remove(observer)
                Logger("kernel.node").warning(
                    "an observer plugin raised and is asked no more",
                    observer=type(observer).__qualname__,
                    error=repr(error),
                )

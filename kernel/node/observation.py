"""Telling observer plugins what happens, in batches, after the fact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernel.logs import Logger
from kernel_spec.observers import LifecycleEvent, Observer


class Observation:
    """Collects events while there are observers; costs nothing without."""

    def __init__(self, observers: Sequence[Observer]) -> None:
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

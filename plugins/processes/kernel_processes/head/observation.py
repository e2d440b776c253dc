"""Pass events to observers in batches, after the fact: always to plugins, to others while they are subscribed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kernel_spec.observers import FAILED, FINISHED, TASK, LifecycleEvent, Observer

KEPT_FAILURES = 1000
"""The number of latest failures that are kept for new observers."""


class Observation:
    """Collects events while there are observers, and does nothing otherwise.

    `on_active(active)` is called when the nodes have to start or to stop reporting their events;
    `on_fault(observer, error)` with an observer that has raised, which is removed.
    """

    def __init__(
        self,
        observers: Sequence[Observer],
        clock: Callable[[], float],
        on_active: Callable[[bool], None],
        on_fault: Callable[[Observer, Exception], None],
    ) -> None:
        self._clock = clock
        self._on_active = on_active
        self._on_fault = on_fault
        self._collected = 0.0
        self._observers = list(observers)
        self._passive: list[Observer] = []
        """Observers that need only the events of the head itself."""
        self._events: list[LifecycleEvent] = []
        self._failures: deque[LifecycleEvent] = deque(maxlen=KEPT_FAILURES)
        """Failures whose results were never asked for: a new observer receives them first."""

    @property
    def active(self) -> bool:
        """Whether the nodes must report their events."""
        return len(self._observers) > len(self._passive)

    def subscribe(self, observer: Observer, passive: bool) -> None:
        """Add `observer`. A `passive` one receives events of nodes, workers and actors only, at no cost to the nodes.

        Raises ValueError when it was added before.
        """
        if observer in self._observers:
            raise ValueError(f"{observer!r} is an observer already")
        before = self.active
        self._observers.append(observer)
        if passive:
            self._passive.append(observer)
        elif self._failures:
            observer.observe(list(self._failures))
        self._tell_of_change(before)

    def unsubscribe(self, observer: Observer) -> None:
        """Remove `observer`, if it was added."""
        before = self.active
        self._observers = [one for one in self._observers if one is not observer]
        self._passive = [one for one in self._passive if one is not observer]
        self._tell_of_change(before)

    def _tell_of_change(self, before: bool) -> None:
        if self.active != before:
            self._on_active(self.active)

    def note(self, kind: str, state: str, id: bytes, time: float, detail: Mapping[str, Any]) -> None:
        """Add an event."""
        if self._observers:
            self._events.append(LifecycleEvent(kind, state, id.hex(), time, detail))

    def note_failure(self, event: LifecycleEvent) -> None:
        """Add a failure whose result was never asked for. Observers that begin later receive it, too."""
        self._failures.append(event)
        if self._observers:
            self._events.append(event)

    def note_all(self, events: Iterable[tuple[str, str, bytes, float, Mapping[str, Any]]]) -> None:
        """Add the events that a node reports: the arguments of `note` for each."""
        for event in events:
            self.note(*event)

    def happened(self, kind: str, state: str, id: bytes, detail: Mapping[str, Any]) -> None:
        """Add an event of this moment."""
        self.note(kind, state, id, time.time(), detail)

    def collect(self, seconds: float) -> bool:
        """Return whether to ask the processes for their calls: every `seconds`, if there are observers."""
        if not self._observers or self._clock() - self._collected < seconds:
            return False
        self._collected = self._clock()
        return True

    def note_calls(self, worker: bytes, calls: Sequence[tuple[str, str, float, float, bool]] | None) -> None:
        """Add the calls that `CallTrace.new_calls` of a worker returned; None if it could not answer."""
        if not self._observers:
            return
        for id, name, begun, ended, failed in calls or ():
            detail = {"name": name, "seconds": ended - begun, "worker": worker.hex()}
            self._events.append(LifecycleEvent(TASK, FAILED if failed else FINISHED, id, ended, detail))

    def deliver(self) -> None:
        """Pass the collected events to the observers; an observer that raises is reported and removed."""
        if not self._events:
            return
        events, self._events = self._events, []
        for observer in list(self._observers):
            try:
                observer.observe(events)
            except Exception as error:
                self.unsubscribe(observer)
                self._on_fault(observer, error)

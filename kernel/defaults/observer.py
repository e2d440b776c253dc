"""The observer in its simplest correct form: it keeps the last events."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from kernel_spec.observers import LifecycleEvent


class RecordingObserver:
    """Keeps the last `keep` events in memory, and counts those that it had to forget."""

    def __init__(self, keep: int = 1000) -> None:
        self._events: deque[LifecycleEvent] = deque(maxlen=keep)
        self.seen = 0
        """Number of all events."""

    def observe(self, events: Sequence[LifecycleEvent]) -> None:
        """Keep the events."""
        self.seen += len(events)
        self._events.extend(events)

    @property
    def forgotten(self) -> int:
        """Number of events that are no longer kept."""
        return self.seen - len(self._events)

    def events(self, kind: str | None = None, id: str | None = None) -> list[LifecycleEvent]:
        """Return the kept events in the order they came, of one kind or one thing when asked so."""
        return [event for event in self._events if kind in (None, event.kind) and id in (None, event.id)]

"""Subscriptions: to topics of messages, and to events of the session. Lives in the head's loop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from kernel_control_grpc.mailbox import Mailbox
from kernel_processes.head.observation import Observation
from kernel_spec.observers import ACTOR, NODE, PLACEMENT_GROUP, WORKER, LifecycleEvent

HEAD_KINDS = frozenset({NODE, WORKER, ACTOR, PLACEMENT_GROUP})
"""Kinds of events that the head knows by itself; nodes report the others only when asked to."""

Close = Callable[[], None]


class Topics:
    """Messages to whoever listens at the moment."""

    def __init__(self) -> None:
        self._listeners: dict[str, set[Mailbox]] = {}

    def publish(self, topic: str, message: Any, size: int) -> int:
        """Send a message to all subscribers of its topic; return how many there are."""
        listeners = self._listeners.get(topic, ())
        for mailbox in listeners:
            mailbox.put(message, size)
        return len(listeners)

    def subscribe(self, topics: Collection[str], mailbox: Mailbox) -> Close:
        """Put messages of `topics` into `mailbox`, until the returned function is called."""
        for topic in topics:
            self._listeners.setdefault(topic, set()).add(mailbox)

        def close() -> None:
            for topic in topics:
                listeners = self._listeners.get(topic, set())
                listeners.discard(mailbox)
                if not listeners:
                    self._listeners.pop(topic, None)

        return close


class EventFeed:
    """An observer that calls `listener(event)` in the head's loop while it is subscribed."""

    def __init__(self, kinds: Collection[str], listener: Callable[[LifecycleEvent], None]) -> None:
        self._kinds = frozenset(kinds)
        self._listener = listener

    def observe(self, events: Sequence[LifecycleEvent]) -> None:
        """Pass on events of the wanted kinds."""
        for event in events:
            if not self._kinds or event.kind in self._kinds:
                self._listener(event)

    def subscribe(self, observation: Observation) -> Close:
        """Subscribe to the events, until the returned function is called."""
        observation.subscribe(self, passive=bool(self._kinds) and self._kinds <= HEAD_KINDS)
        return lambda: observation.unsubscribe(self)

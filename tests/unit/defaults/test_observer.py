"""The observer that keeps the last events keeps the contract."""

from __future__ import annotations

from kernel.conformance.observer import ObserverConformance
from kernel.defaults.observer import RecordingObserver
from kernel_spec.observers import ACTOR, FINISHED, TASK, LifecycleEvent


class TestRecording(ObserverConformance):
    make_observer = staticmethod(RecordingObserver)


def event(number: int, kind: str = TASK) -> LifecycleEvent:
    return LifecycleEvent(kind, FINISHED, str(number), float(number))


def test_keeps_the_last_events_in_order() -> None:
    observer = RecordingObserver(keep=3)
    observer.observe([event(1), event(2)])
    observer.observe([event(3), event(4)])
    assert observer.events() == [event(2), event(3), event(4)]
    assert (observer.seen, observer.forgotten) == (4, 1)


def test_events_can_be_picked() -> None:
    observer = RecordingObserver()
    observer.observe([event(1), event(1, ACTOR), event(2, ACTOR)])
    assert observer.events(kind=ACTOR) == [event(1, ACTOR), event(2, ACTOR)]
    assert observer.events(kind=ACTOR, id="2") == [event(2, ACTOR)]
    assert observer.events(id="1") == [event(1), event(1, ACTOR)]

"""The conformance suite for observers.

    from kernel_conformance.observer import ObserverConformance

    class TestMine(ObserverConformance):
        make_observer = staticmethod(MyObserver)

Run it with pytest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from kernel_spec.observers import FAILED, FINISHED, STATES, TASK, LifecycleEvent, Observer


class ObserverConformance:
    """Every observer's tests."""

    make_observer: Callable[[], Observer]

    batch_seconds = 0.5
    """Seconds that a batch of 10,000 events may hold up the agent."""

    def test_is_an_observer(self) -> None:
        observer = type(self).make_observer()
        assert isinstance(observer, Observer), f"{type(observer).__name__} has no method observe"

    def test_takes_every_kind_of_event(self) -> None:
        observer = type(self).make_observer()
        for kind, states in STATES.items():
            observer.observe([_event(number, kind, state) for number, state in enumerate(states)])

    def test_takes_nothing_at_all(self) -> None:
        observer = type(self).make_observer()
        observer.observe([])
        observer.observe(())

    def test_takes_what_later_versions_will_say(self) -> None:
        observer = type(self).make_observer()
        observer.observe([_event(1, "tomorrow", "unheard_of"), _event(2, TASK, FINISHED, {"nested": {"a": [1]}})])

    def test_takes_events_out_of_order_and_twice(self) -> None:
        observer = type(self).make_observer()
        observer.observe([_event(2, TASK, FINISHED), _event(1, TASK, FAILED), _event(2, TASK, FINISHED)])

    def test_leaves_the_batch_as_it_is(self) -> None:
        batch = [_event(number, TASK, FINISHED) for number in range(10)]
        before = list(batch)
        type(self).make_observer().observe(batch)
        assert batch == before, "other observers get the same batch, so nobody may change it"

    def test_returns_quickly(self) -> None:
        observer, batch = type(self).make_observer(), [_event(number, TASK, FINISHED) for number in range(10_000)]
        seconds = _seconds(observer, batch)
        for _ in range(20):  # others may be using the machine
            if seconds < self.batch_seconds:
                break
            seconds = _seconds(observer, batch)
        assert seconds < self.batch_seconds, f"10,000 events took {seconds:.2f} s; hand slow work to a thread"


def _event(number: int, kind: str, state: str, detail: dict[str, object] | None = None) -> LifecycleEvent:
    return LifecycleEvent(kind, state, f"{number:016x}", 1e9 + number, detail or {"name": "work", "pid": number})


def _seconds(observer: Observer, batch: Sequence[LifecycleEvent]) -> float:
    start = time.perf_counter()
    observer.observe(batch)
    return time.perf_counter() - start

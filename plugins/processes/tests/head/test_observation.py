"""Which calls a process tells of, and what observers hear of them."""

from __future__ import annotations

from typing import Any

import pytest

from kernel.defaults.observer import RecordingObserver
from kernel_engine.tasks.tracing import FAILED, KEPT, CallTrace
from kernel_processes.head import observation as observation_module
from kernel_processes.head.observation import Observation
from kernel_spec import observers
from kernel_spec.observers import LifecycleEvent


def add(trace: CallTrace, *numbers: int) -> None:
    for number in numbers:
        trace.add(f"task{number}", float(number), number + 0.5, number.to_bytes(4, "big"))


def names(trace: CallTrace) -> list[str]:
    return [name for _, name, _, _, _ in trace.new_calls()]


def test_each_call_is_told_once() -> None:
    trace = CallTrace()
    assert names(trace) == []
    add(trace, 1, 2)
    assert names(trace) == ["task1", "task2"]
    assert names(trace) == []
    add(trace, 2)  # the same once more, to the byte
    add(trace, 3)
    assert names(trace) == ["task2", "task3"]


def test_spans_are_no_calls() -> None:
    trace = CallTrace()
    trace.add("span", 1.0, 2.0, b"", {"bytes": 3})
    assert trace.new_calls() == []
    add(trace, 1)
    assert names(trace) == ["task1"]


def test_what_fell_out_of_the_ring_is_missing() -> None:
    trace = CallTrace()
    add(trace, 0)
    assert names(trace) == ["task0"]
    add(trace, *range(1, KEPT + 11))
    told = names(trace)
    assert (len(told), told[0], told[-1]) == (KEPT, "task11", f"task{KEPT + 10}")


def test_a_failed_call_says_so_in_the_timeline_and_to_observers() -> None:
    trace, recorder = CallTrace(), RecordingObserver()
    observation = World(recorder).observation
    add(trace, 1)
    trace.add("broken", 2.0, 2.5, b"\2", FAILED)
    assert [event["args"].get("failed") for event in trace.events()] == [None, True]
    observation.note_calls(b"w", trace.new_calls())
    observation.note_calls(b"w", None)
    observation.deliver()
    assert [(event.kind, event.state, event.id, event.detail["name"]) for event in recorder.events()] == [
        (observers.TASK, observers.FINISHED, "00000001", "task1"),
        (observers.TASK, observers.FAILED, "02", "broken"),
    ]


def test_nothing_is_kept_when_nobody_listens() -> None:
    observation = World().observation
    observation.note_calls(b"w", [("01", "work", 1.0, 2.0, False)])
    observation.note(observers.NODE, observers.ALIVE, b"n", 1.0, {})
    assert not observation.active and not observation._events


# -- who is told, and of what ----------------------------------------------------------------------------------------


class World:
    """An observation with a clock, which says when nodes have to tell and whom it gave up."""

    def __init__(self, *observers: Any) -> None:
        self.now = 100.0
        self.active: list[bool] = []
        self.faults: list[Any] = []
        self.observation = Observation(observers, lambda: self.now, self.active.append, self._fault)

    def _fault(self, observer: Any, error: Exception) -> None:
        self.faults.append((observer, str(error)))

    def note(self, time: float = 1.0) -> None:
        self.observation.note(observers.NODE, observers.ALIVE, b"n", time, {"address": "here"})
        self.observation.deliver()


class Breaks:
    def observe(self, events: Any) -> None:
        raise RuntimeError("no room for that")


def test_nodes_are_told_when_the_first_begins_to_listen_and_when_the_last_has_left() -> None:
    world, first, second = World(), RecordingObserver(), RecordingObserver()
    assert world.observation.active is False
    world.observation.subscribe(first, passive=False)
    world.observation.subscribe(second, passive=False)
    assert world.active == [True] and world.observation.active is True
    world.observation.unsubscribe(first)
    world.note()
    assert (first.events(), len(second.events())) == ([], 1)
    assert world.active == [True]
    world.observation.unsubscribe(second)
    world.observation.unsubscribe(second)
    assert world.active == [True, False]
    world.note()
    assert len(second.events()) == 1


def test_a_passive_one_costs_the_nodes_nothing_and_hears_nothing_of_the_past() -> None:
    world, passive, other = World(), RecordingObserver(), RecordingObserver()
    past = LifecycleEvent(observers.TASK, observers.FAILED, "01", 1.0, {})
    world.observation.note_failure(past)
    world.observation.subscribe(passive, passive=True)
    assert world.active == [] and not world.observation.active
    world.note()
    assert [event.kind for event in passive.events()] == [observers.NODE]
    world.observation.subscribe(other, passive=False)
    assert other.events() == [past] and past not in passive.events()
    world.observation.unsubscribe(passive)
    world.note()
    assert len(passive.events()) == 1 and len(other.events()) == 2
    assert world.active == [True]


def test_a_passive_one_that_left_may_come_back_and_be_active() -> None:
    world, one = World(), RecordingObserver()
    world.observation.subscribe(one, passive=True)
    world.observation.unsubscribe(one)
    world.observation.subscribe(one, passive=False)
    assert world.active == [True]


def test_nobody_is_told_twice() -> None:
    one = RecordingObserver()
    world = World(one)
    with pytest.raises(ValueError, match="is an observer already"):
        world.observation.subscribe(one, passive=False)
    world.note()
    assert len(one.events()) == 1


def test_an_event_has_all_that_was_said_of_it_and_is_told_once() -> None:
    one = RecordingObserver()
    world = World(one)
    world.note(7.0)
    world.observation.deliver()
    assert one.events() == [LifecycleEvent(observers.NODE, observers.ALIVE, b"n".hex(), 7.0, {"address": "here"})]


def test_a_call_has_its_name_its_seconds_and_its_worker() -> None:
    one = RecordingObserver()
    world = World(one)
    world.observation.note_calls(b"w", [("01", "work", 3.0, 5.5, False)])
    world.observation.deliver()
    detail = {"name": "work", "seconds": 2.5, "worker": b"w".hex()}
    assert one.events() == [LifecycleEvent(observers.TASK, observers.FINISHED, "01", 5.5, detail)]


def test_one_that_raises_is_reported_once_and_asked_no_more_and_others_go_on() -> None:
    broken, right = Breaks(), RecordingObserver()
    world = World(broken, right)
    world.note()
    world.note()
    assert world.faults == [(broken, "no room for that")]
    assert len(right.events()) == 2


def test_failures_are_told_at_once_and_the_latest_to_those_that_begin_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observation_module, "KEPT_FAILURES", 2)
    early, late = RecordingObserver(), RecordingObserver()
    world = World(early)
    failures = [LifecycleEvent(observers.TASK, observers.FAILED, f"{number:02x}", 1.0, {}) for number in range(3)]
    for failure in failures:
        world.observation.note_failure(failure)
    world.observation.deliver()
    assert early.events() == failures
    world.observation.subscribe(late, passive=False)
    assert late.events() == failures[1:]
    world.observation.deliver()
    assert late.events() == failures[1:], "each is told once"


def test_calls_are_collected_at_once_and_then_now_and_then_while_somebody_listens() -> None:
    world = World(RecordingObserver())
    assert world.observation.collect(100.0) is True
    world.now += 0.5
    assert world.observation.collect(1.0) is False
    world.now += 0.5
    assert world.observation.collect(1.0) is True
    assert world.observation.collect(1.0) is False
    assert World().observation.collect(0.0) is False

"""Which calls a process tells of, and what observers hear of them."""

from __future__ import annotations

from kernel.control.observation import Observation
from kernel.local.observer import RecordingObserver
from kernel.runtime.tracing import FAILED, KEPT, Trace
from kernel_spec import observers


def add(trace: Trace, *numbers: int) -> None:
    for number in numbers:
        trace.add(f"task{number}", float(number), number + 0.5, number.to_bytes(4, "big"))


def names(trace: Trace) -> list[str]:
    return [name for _, name, _, _, _ in trace.new_calls()]


def test_each_call_is_told_once() -> None:
    trace = Trace()
    assert names(trace) == []
    add(trace, 1, 2)
    assert names(trace) == ["task1", "task2"]
    assert names(trace) == []
    add(trace, 2)  # the same once more, to the byte
    add(trace, 3)
    assert names(trace) == ["task2", "task3"]


def test_spans_are_no_calls() -> None:
    trace = Trace()
    trace.add("span", 1.0, 2.0, b"", {"bytes": 3})
    assert trace.new_calls() == []
    add(trace, 1)
    assert names(trace) == ["task1"]


def test_what_fell_out_of_the_ring_is_missing() -> None:
    trace = Trace()
    add(trace, 0)
    assert names(trace) == ["task0"]
    add(trace, *range(1, KEPT + 11))
    told = names(trace)
    assert (len(told), told[0], told[-1]) == (KEPT, "task11", f"task{KEPT + 10}")


def test_a_failed_call_says_so_in_the_timeline_and_to_observers() -> None:
    trace, recorder = Trace(), RecordingObserver()
    add(trace, 1)
    trace.add("broken", 2.0, 2.5, b"\2", FAILED)
    assert [event["args"].get("failed") for event in trace.events()] == [None, True]
    observation = Observation([recorder], lambda: 0.0)
    observation.note_calls(b"w", trace.new_calls())
    observation.note_calls(b"w", None)
    observation.deliver()
    assert [(event.kind, event.state, event.id, event.detail["name"]) for event in recorder.events()] == [
        (observers.TASK, observers.FINISHED, "00000001", "task1"),
        (observers.TASK, observers.FAILED, "02", "broken"),
    ]


def test_nothing_is_kept_when_nobody_listens() -> None:
    observation = Observation([], lambda: 0.0)
    observation.note_calls(b"w", [("01", "work", 1.0, 2.0, False)])
    observation.note(observers.NODE, observers.ALIVE, b"n", 1.0, {})
    assert not observation.active and not observation._events

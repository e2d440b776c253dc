"""Listeners that come and go: bounded mailboxes, topics, observation that costs nothing without anybody."""

from __future__ import annotations

from typing import Any

import pytest
from kernel_control_grpc.feeds import EventFeed, Topics
from kernel_control_grpc.mailbox import BATCH_BYTES, BATCH_ITEMS, Mailbox

from kernel.defaults.observer import RecordingObserver
from kernel_processes.head.observation import Observation
from kernel_spec import observers
from kernel_spec.observers import LifecycleEvent


class Box(Mailbox):
    """A mailbox that counts how often it was empty no more."""

    def __init__(self, items: int = 10, bytes: int = 1000) -> None:
        self.firsts = 0
        super().__init__(items, bytes, self._count)

    def _count(self) -> None:
        self.firsts += 1


def test_the_reader_is_woken_once_and_gets_everything_in_order() -> None:
    box = Box()
    for number in range(3):
        box.put(number, 1)
    assert box.firsts == 1
    assert box.take() == ([0, 1, 2], 0)
    assert box.take() == ([], 0)
    box.put(3, 1)
    assert box.firsts == 2


@pytest.mark.parametrize(("items", "bytes", "size"), [(4, 1000, 1), (100, 40, 10)])
def test_a_slow_reader_loses_the_oldest_and_is_told_how_many(items: int, bytes: int, size: int) -> None:
    box = Box(items, bytes)
    for number in range(10):
        box.put(number, size)
    assert box.take() == ([6, 7, 8, 9], 6)
    box.put(10, size)
    assert box.take() == ([10], 0), "what was missed is told once"


def test_one_thing_that_is_too_large_by_itself_is_kept_alone() -> None:
    box = Box(bytes=10)
    box.put("small", 1)
    box.put("large", 100)
    assert box.take() == (["large"], 1)


def test_a_batch_is_bounded_in_number_and_size() -> None:
    box = Box(10_000, 100 << 20)
    for number in range(BATCH_ITEMS + 1):
        box.put(number, 1)
    assert [len(box.take()[0]), len(box.take()[0])] == [BATCH_ITEMS, 1]
    for number in range(3):
        box.put(number, BATCH_BYTES - 1)
    assert [len(box.take()[0]), len(box.take()[0])] == [2, 1]


def test_messages_go_to_those_who_listen_to_their_topic() -> None:
    topics, one, both = Topics(), Box(), Box()
    close_one = topics.subscribe({"a"}, one)
    close_both = topics.subscribe({"a", "b"}, both)
    assert (topics.publish("a", "first", 1), topics.publish("b", "second", 1), topics.publish("c", "third", 1)) == (
        2,
        1,
        0,
    )
    assert one.take()[0] == ["first"] and both.take()[0] == ["first", "second"]
    close_both()
    assert (topics.publish("a", "fourth", 1), topics.publish("b", "fifth", 1)) == (1, 0)
    close_one()
    assert topics._listeners == {}


def observed(*installed: Any) -> tuple[Observation, list[bool]]:
    """Return an observation with observers that are installed, and what the nodes are told of it."""
    told: list[bool] = []
    return Observation(installed, lambda: 0.0, told.append, lambda observer, error: None), told


def event(kind: str = observers.ACTOR) -> tuple[Any, ...]:
    return (kind, observers.ALIVE, b"\1", 1.0, {})


def test_nodes_are_asked_to_tell_only_while_somebody_wants_what_they_know() -> None:
    observation, told, received = *observed(), []
    few = EventFeed([observers.ACTOR], received.append).subscribe(observation)
    assert told == [] and not observation.active
    all = EventFeed([], received.append).subscribe(observation)
    tasks = EventFeed([observers.TASK], received.append).subscribe(observation)
    assert told == [True] and observation.active
    observation.note(*event())
    observation.deliver()
    assert [one.kind for one in received] == [observers.ACTOR] * 2, "who wants tasks alone hears of nothing else"
    all()
    assert told == [True]
    tasks()
    tasks()
    assert told == [True, False] and not observation.active
    few()
    observation.note(*event())
    observation.deliver()
    assert len(received) == 2


def test_observers_that_are_installed_go_on_when_others_leave() -> None:
    recorder = RecordingObserver()
    observation, told = observed(recorder)
    EventFeed([], lambda event: None).subscribe(observation)()
    observation.note(*event())
    observation.deliver()
    assert told == [] and observation.active
    assert len(recorder.events()) == 1
    with pytest.raises(ValueError, match="is an observer already"):
        observation.subscribe(recorder, passive=False)


def test_a_listener_that_raises_is_let_go(capsys: pytest.CaptureFixture[str]) -> None:
    def fails(event: LifecycleEvent) -> None:
        raise ZeroDivisionError

    observation, told = observed()
    EventFeed([], fails).subscribe(observation)
    observation.note(*event())
    observation.deliver()
    assert told == [True, False]

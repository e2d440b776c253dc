"""When a batch goes, and with whom: no clock, no event loop."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_serve.batching.queue import BatchQueue, Item
from kernel_serve.batching.settings import BatchSettings
from kernel_serve.errors import DeploymentError


def queue(**settings: Any) -> BatchQueue:
    return BatchQueue(BatchSettings(**{"max_batch_size": 3, "wait_seconds": 1.0, **settings}))


def values(batch: list[Item]) -> list[Any]:
    return [item.value for item in batch]


def test_a_full_batch_goes_at_once_and_in_order() -> None:
    waiting = queue()
    assert [waiting.put(Item(value, 0.0)) for value in "abcd"] == [False, False, True, True]
    assert values(waiting.take(0.0)) == ["a", "b", "c"]
    assert len(waiting) == 1


def test_a_batch_that_waits_goes_when_its_first_has_waited_long_enough() -> None:
    waiting = queue()
    waiting.put(Item("a", 5.0))
    waiting.put(Item("b", 5.5))
    assert waiting.due() == 6.0
    assert waiting.take(5.99) == []
    assert values(waiting.take(6.0)) == ["a", "b"]
    assert waiting.due() is None


def test_no_more_batches_run_than_may_and_the_end_of_one_lets_the_next_go() -> None:
    waiting = queue(max_concurrent_batches=2)
    for value in range(9):
        waiting.put(Item(value, 0.0))
    assert values(waiting.take(0.0)) == [0, 1, 2]
    assert values(waiting.take(0.0)) == [3, 4, 5]
    assert waiting.take(9.0) == [] and waiting.due() is None
    waiting.finished()
    assert values(waiting.take(0.0)) == [6, 7, 8]


def test_who_is_gone_does_not_go_along_and_does_not_hurry_the_others() -> None:
    waiting = queue()
    first, second = Item("a", 0.0), Item("b", 0.5)
    waiting.put(first)
    waiting.put(second)
    waiting.discard(first)
    assert waiting.due() == 1.5
    assert values(waiting.take(1.5)) == ["b"]
    waiting.discard(second)  # it went already
    assert len(waiting) == 0


def test_groups_never_mix_and_the_one_that_waits_longest_is_first() -> None:
    waiting = queue()
    for value, group in (("a", "x"), ("b", "y"), ("c", "x"), ("d", "y"), ("e", "y")):
        waiting.put(Item(value, 0.0 if group == "x" else 0.1, group))
    assert values(waiting.take(0.2)) == ["b", "d", "e"], "y is full, x still waits"
    assert waiting.due() is None
    waiting.finished()
    assert waiting.due() == 1.0
    assert values(waiting.take(1.0)) == ["a", "c"]


def test_settings_change_for_those_that_wait() -> None:
    waiting = queue()
    waiting.put(Item("a", 0.0))
    waiting.put(Item("b", 0.0))
    waiting.settings.max_batch_size = 2
    assert values(waiting.take(0.0)) == ["a", "b"]
    waiting.finished()
    waiting.put(Item("c", 0.0))
    waiting.settings.wait_seconds = 0.0
    assert waiting.due() == 0.0


def test_a_batch_is_measured_by_the_function_given() -> None:
    waiting = queue(max_batch_size=10, size_of=sum)
    assert not waiting.put(Item(4, 0.0))
    assert not waiting.put(Item(5, 0.0))
    assert waiting.put(Item(3, 0.0)), "9 can't grow by 3"
    assert values(waiting.take(0.0)) == [4, 5]
    waiting.finished()
    assert waiting.put(Item(7, 0.0)), "10 is full"
    assert values(waiting.take(0.0)) == [3, 7]


def test_the_size_is_computed_once_for_each_item_that_comes() -> None:
    calls = []
    waiting = queue(max_batch_size=1000, size_of=lambda items: calls.append(len(items)) or len(items))
    for value in range(100):
        waiting.put(Item(value, 0.0))
    assert calls == list(range(1, 101))


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["put", "take", "finish", "discard"]), st.integers(1, 5)), max_size=60),
    st.integers(1, 4),
    st.integers(1, 3),
    st.booleans(),
)
def test_everybody_goes_exactly_once_whatever_happens(
    events: list[tuple[str, int]], size: int, concurrent: int, by_function: bool
) -> None:
    waiting = queue(max_batch_size=size, max_concurrent_batches=concurrent, size_of=len if by_function else None)
    now, inside, out, gone = 0.0, [], [], []
    for event, number in events:
        now += number / 4
        if event == "put":
            inside.append(Item(now, now, "xy"[number % 2]))
            waiting.put(inside[-1])
        elif event == "take":
            batch = waiting.take(now)
            assert len(batch) <= size and waiting.running <= concurrent
            assert batch or waiting.due() is None or waiting.due() > now, "due, but not taken"
            assert not batch or len(batch) == size or batch[0].since + 1.0 <= now, "not due, but taken"
            out += batch
        elif event == "finish" and waiting.running:
            waiting.finished()
        elif event == "discard" and inside:
            item = inside[number % len(inside)]
            if item not in out and item not in gone:
                waiting.discard(item)
                gone.append(item)
        waiting.validate()
    assert sorted(map(id, out + gone + waiting.take_all())) == sorted(map(id, inside))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_batch_size": 0}, "max_batch_size is a whole number from 1 on, not 0"),
        ({"max_batch_size": 1.5}, "max_batch_size is a whole number from 1 on, not 1.5"),
        ({"wait_seconds": -1}, "batch_wait_timeout_s is a number of seconds from 0 on, not -1"),
        ({"max_concurrent_batches": True}, "max_concurrent_batches is a whole number from 1 on, not True"),
        ({"size_of": 3}, "batch_size_fn is a function that takes a list of requests and returns their size, not 3"),
    ],
)
def test_a_bad_setting_is_refused_by_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DeploymentError) as caught:
        queue(**settings)
    assert str(caught.value) == message

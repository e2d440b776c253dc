"""Which pulls run, in which order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kernel_network_tcp.transfer.limits import TransferLimits
from kernel_network_tcp.transfer.pull_queue import PullQueue

from kernel_spec.ids import ObjectId

LIMITS = TransferLimits(bytes_in_flight=100, pulls_at_once=3, overtaken_seconds=5)


def name(index: int) -> ObjectId:
    return ObjectId(index.to_bytes(20, "big"))


def order(queue: PullQueue, now: float = 0.0) -> list[int]:
    """Start and finish all, one by one."""
    started = []
    while queue:
        for object in queue.next(now):
            started.append(int.from_bytes(object, "big"))
            queue.validate()
            queue.remove(object)
    return started


def test_who_waits_comes_first_then_what_is_small() -> None:
    queue = PullQueue(TransferLimits(pulls_at_once=1))
    for index, (size, urgent) in enumerate([(50, False), (10, False), (90, True), (20, True)]):
        queue.add(name(index), size, urgent, 0.0)
    assert order(queue) == [3, 2, 1, 0]


def test_somebody_begins_to_wait() -> None:
    queue = PullQueue(TransferLimits(pulls_at_once=1))
    queue.add(name(0), 10, False, 0.0)
    queue.add(name(1), 90, False, 0.0)
    queue.hurry(name(1))
    assert order(queue) == [1, 0]


def test_only_so_many_bytes_are_in_flight() -> None:
    queue = PullQueue(LIMITS)
    for index in range(4):
        queue.add(name(index), 45, True, 0.0)
    assert queue.next(0.0) == [name(0), name(1)]
    assert queue.next(0.0) == []
    queue.remove(name(0))
    assert queue.next(0.0) == [name(2)]


def test_what_is_larger_than_the_limit_goes_alone() -> None:
    queue = PullQueue(LIMITS)
    queue.add(name(0), 1000, True, 0.0)
    queue.add(name(1), 1, False, 0.0)
    assert queue.next(0.0) == [name(0)]
    assert queue.next(0.0) == []
    queue.remove(name(0))
    assert queue.next(0.0) == [name(1)]


def test_the_first_in_line_is_not_passed_by_those_behind() -> None:
    queue = PullQueue(LIMITS)
    queue.add(name(0), 80, True, 0.0)
    assert queue.next(0.0) == [name(0)]
    queue.add(name(1), 50, True, 0.0)
    queue.add(name(2), 5, False, 0.0)
    assert queue.next(0.0) == []


def test_what_waited_long_is_not_overtaken_any_more() -> None:
    queue = PullQueue(TransferLimits(pulls_at_once=1, overtaken_seconds=5))
    queue.add(name(0), 90, False, 0.0)
    queue.add(name(1), 10, True, 4.0)
    assert order(queue, now=6.0) == [0, 1]


@given(st.lists(st.tuples(st.integers(1, 300), st.booleans(), st.floats(0, 20)), max_size=30), st.randoms())
def test_everything_has_its_turn(items: list[tuple[int, bool, float]], random: object) -> None:
    queue = PullQueue(LIMITS)
    for index, (size, urgent, at) in enumerate(items):
        queue.add(name(index), size, urgent, at)
    seen: list[ObjectId] = []
    while queue or queue.running:
        seen += queue.next(20.0)
        queue.validate()
        assert queue.running, "nothing runs though things wait"
        queue.remove(random.choice(sorted(queue.running)))  # type: ignore[attr-defined]
    assert sorted(seen) == [name(index) for index in range(len(items))]

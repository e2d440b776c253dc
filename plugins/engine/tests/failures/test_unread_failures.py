"""When a failure is shown that nobody asked for: events and times in, instructions out."""

from __future__ import annotations

import random

import pytest

from kernel_engine.failures.unread_failures import (
    PATIENCE_SECONDS,
    SETTLED_KEPT,
    SHOWN_AT_ONCE,
    WINDOW_SECONDS,
    Instruction,
    LeftOut,
    Show,
    UnreadFailures,
)

NOW = 1000.0


def failure(text: str = "boom") -> tuple[int, bytes]:
    """Return a failure of its own: what counts is which bytes these are."""
    return 0, bytes(bytearray(text.encode() * 3))


def names(instructions: list[Instruction]) -> list[str]:
    """Return what is shown in full."""
    return [one.unread.name for one in instructions if isinstance(one, Show) and one.in_full]


@pytest.fixture
def unread() -> UnreadFailures:
    return UnreadFailures()


def test_a_failure_whose_reference_is_held_is_shown_once_after_some_seconds(unread: UnreadFailures) -> None:
    assert unread.failed(failure(), b"task", "f()", [b"a"], NOW)
    assert unread.tick(NOW + PATIENCE_SECONDS - 0.1) == []
    assert names(unread.tick(NOW + PATIENCE_SECONDS)) == ["f()"]
    assert not unread.is_busy and unread.tick(NOW + 100) == []


def test_one_whose_last_reference_goes_is_shown_at_once(unread: UnreadFailures) -> None:
    boom = failure()
    unread.failed(boom, b"task", "f()", [b"a", b"b"], NOW)
    unread.dropped(boom, b"a")
    assert unread.tick(NOW) == []
    unread.dropped(boom, b"b")
    assert names(unread.tick(NOW)) == ["f()"]
    unread.dropped(boom, b"b")
    assert unread.tick(NOW) == []


def test_one_that_nobody_could_ask_for_is_shown_at_once(unread: UnreadFailures) -> None:
    assert not unread.failed(failure(), b"task", "f()", [], NOW)
    assert names(unread.tick(NOW)) == ["f()"]


def test_one_that_was_asked_for_is_never_shown(unread: UnreadFailures) -> None:
    boom = failure()
    unread.failed(boom, b"task", "f()", [b"a"], NOW)
    unread.asked(boom)
    unread.dropped(boom, b"a")
    assert not unread.is_busy and unread.close(NOW + 100) == []


def test_what_fails_with_it_counts_as_one(unread: UnreadFailures) -> None:
    boom = failure()
    unread.failed(boom, b"first", "f()", [b"a"], NOW)
    unread.failed(boom, b"second", "g()", [b"b"], NOW)
    unread.dropped(boom, b"a")
    assert unread.tick(NOW) == []
    unread.dropped(boom, b"b")
    assert names(unread.tick(NOW)) == ["f()"]
    assert not unread.failed(boom, b"third", "h()", [b"c"], NOW), "it was shown, and is the same"
    assert unread.close(NOW) == []


def test_one_that_a_thread_still_waits_for_is_left_to_it(unread: UnreadFailures) -> None:
    waits = True
    unread.failed(failure(), b"task", "f()", [b"a"], NOW, lambda: waits)
    assert unread.tick(NOW + PATIENCE_SECONDS) == []
    waits = False
    assert unread.tick(NOW + PATIENCE_SECONDS + 1) == []
    assert names(unread.tick(NOW + 2 * PATIENCE_SECONDS)) == ["f()"]


def test_what_is_left_is_shown_at_the_end(unread: UnreadFailures) -> None:
    unread.failed(failure(), b"task", "f()", [b"a"], NOW, lambda: True)
    assert names(unread.close(NOW)) == ["f()"]


def test_many_are_counted(unread: UnreadFailures) -> None:
    for number in range(SHOWN_AT_ONCE + 3):
        unread.failed(failure(), b"task", f"f{number}()", [], NOW)
    shown = unread.tick(NOW)
    assert names(shown) == [f"f{number}()" for number in range(SHOWN_AT_ONCE)] and len(shown) == SHOWN_AT_ONCE + 3
    assert unread.tick(NOW + WINDOW_SECONDS - 0.1) == []
    assert unread.tick(NOW + WINDOW_SECONDS) == [LeftOut(3)]
    unread.failed(failure(), b"task", "later()", [], NOW + WINDOW_SECONDS)
    assert names(unread.tick(NOW + WINDOW_SECONDS)) == ["later()"]


def test_the_count_is_said_at_the_end(unread: UnreadFailures) -> None:
    for _ in range(SHOWN_AT_ONCE + 2):
        unread.failed(failure(), b"task", "f()", [b"a"], NOW)
    assert unread.close(NOW)[-1] == LeftOut(2)
    assert unread.close(NOW) == []


@pytest.mark.parametrize("seed", range(20))
def test_each_is_shown_or_asked_for_whatever_happens(seed: int) -> None:
    choice = random.Random(seed)
    unread = UnreadFailures()
    now, told, asked = NOW, [], set()
    open_: list[tuple[int, tuple[int, bytes]]] = []
    for number in range(300):
        now += choice.random() * 2
        boom = failure()
        unread.failed(boom, bytes([number % 256]), str(number), [b"a"], now)
        open_.append((number, boom))
        if choice.random() < 0.6:
            chosen, its = open_.pop(choice.randrange(len(open_)))
            if choice.random() < 0.5:
                unread.asked(its)
                asked.add(str(chosen))
            else:
                unread.dropped(its, b"a")
        told += [one for one in unread.tick(now) if isinstance(one, Show)]
        unread.validate()
    told += [one for one in unread.close(now) if isinstance(one, Show)]
    seen = [one.unread.name for one in told]
    assert len(set(seen)) == len(seen)
    assert set(seen) | asked == {str(number) for number in range(300)}
    assert len(unread._settled) <= SETTLED_KEPT

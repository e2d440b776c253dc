"""Exceptions from outside strike programs and tasks at random moments: nothing hangs, and every value is right."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

import kernel
from benchmarks import interrupts
from kernel.testing.faults import PATIENCE_SECONDS

TIMES = 25
"""Interrupts of each kind: losing a message took fewer than ten of most."""


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    kernel.init(num_cpus=3)
    yield
    kernel.shutdown()


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("alarm", "the program"),
        ("foreign", "the program"),
        ("asynchronous", "the program"),
        ("asynchronous", "a thread"),
        ("alarm", "a task"),
        ("foreign", "a task"),
        ("asynchronous", "a task"),
        ("asynchronous", "an actor's thread"),
    ],
)
def test_interrupts_at_random_moments_lose_nothing(kind: str, where: str) -> None:
    assert interrupts.run_way(kind, where)(TIMES, 1) == TIMES


class Deadline(Exception):
    """What the handlers here raise."""


def _raise(number: int, frame: Any) -> None:
    raise Deadline


@kernel.remote
def wait_for_a_while(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"


def test_a_deadline_ends_a_get_and_the_value_can_be_had_later() -> None:
    ref = wait_for_a_while.remote(0.5)
    before = signal.signal(signal.SIGALRM, _raise)
    try:
        with pytest.raises(Deadline):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            kernel.get(ref, timeout=PATIENCE_SECONDS)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert kernel.get(ref, timeout=PATIENCE_SECONDS) == "slept"


def test_an_alarm_that_a_task_leaves_behind_does_not_end_its_worker() -> None:
    @kernel.remote(max_restarts=0)
    class Actor:
        def begin(self) -> None:
            signal.signal(signal.SIGALRM, _raise)
            signal.setitimer(signal.ITIMER_REAL, 0.005)

        def echo(self, x: int) -> int:
            return x

    actor = Actor.remote()
    kernel.get(actor.begin.remote(), timeout=PATIENCE_SECONDS)
    time.sleep(0.05)  # most likely the alarm comes meanwhile; if not, the test is easier
    assert kernel.get(actor.echo.remote(3), timeout=PATIENCE_SECONDS) == 3


def test_a_handler_may_use_the_session_while_the_program_waits() -> None:
    saved: list[Any] = []

    def save(number: int, frame: Any) -> None:
        saved.append(kernel.get(wait_for_a_while.remote(0.01), timeout=PATIENCE_SECONDS))

    before = signal.signal(signal.SIGALRM, save)
    try:
        ref = wait_for_a_while.remote(0.3)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert kernel.get(ref, timeout=PATIENCE_SECONDS) == "slept"
    finally:
        signal.signal(signal.SIGALRM, before)
    assert saved == ["slept"]


def test_an_exception_that_strikes_amid_pickling_is_raised_as_it_is() -> None:
    class Slow:
        def __reduce__(self) -> Any:
            signal.raise_signal(signal.SIGALRM)
            return str, ("never",)

    before = signal.signal(signal.SIGALRM, _raise)
    try:
        with pytest.raises(Deadline):
            kernel.put(Slow())
    finally:
        signal.signal(signal.SIGALRM, before)

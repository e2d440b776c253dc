"""Signal handlers that raise, in local mode: at random moments, in waits, in tasks and in streams."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

import kernel
from kernel.exceptions import TaskError

SECONDS = 120.0
INTERRUPTS = 150
LONGEST_SECONDS = 0.002
"""An alarm comes so long after the work began, at most."""


class TooLate(Exception):
    pass


def too_late(number: int, frame: FrameType | None) -> None:
    raise TooLate


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    kernel.shutdown()
    before = signal.signal(signal.SIGALRM, too_late)
    with kernel.init(local_mode=True, num_cpus=2):
        yield
        signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@kernel.remote
def square(value: int) -> int:
    return value * value


@kernel.remote
def squares(count: int) -> int:
    return sum(kernel.get([square.remote(value) for value in range(count)]))


@kernel.remote
def items(count: int) -> Iterator[int]:
    yield from range(count)


@kernel.remote
class Plain:
    def echo(self, value: int) -> int:
        return value


@kernel.remote(max_concurrency=3)
class Threaded:
    def echo(self, value: int) -> int:
        return value


@kernel.remote
class Asynchronous:
    async def echo(self, value: int) -> int:
        return value


@kernel.remote
class Gate:
    def __init__(self) -> None:
        self.open = False

    async def wait(self) -> str:
        while not self.open:
            await asyncio.sleep(0.01)
        return "through"

    async def let_through(self) -> bool:
        self.open = True
        return True


def work_of(actors: list[kernel.ActorHandle]) -> list[Callable[[], bool]]:
    """Return pieces of work of every kind, each of which says whether what it got is right."""
    stream = items.options(num_returns="streaming")
    return [
        lambda: kernel.get([square.remote(value) for value in range(10)]) == [value**2 for value in range(10)],
        lambda: kernel.get(squares.remote(4)) == 14,
        lambda: kernel.get(kernel.put(list(range(100)))) == list(range(100)),
        lambda: [kernel.get(ref) for ref in stream.remote(5)] == list(range(5)),
        lambda: kernel.get(square.remote(square.remote(2))) == 16,
        lambda: len(kernel.wait([square.remote(1), square.remote(2)], num_returns=2)[0]) == 2,
        *(lambda actor=actor: kernel.get([actor.echo.remote(value) for value in range(4)]) == list(range(4))
          for actor in actors),
    ]  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2])
def test_alarms_at_random_moments_leave_nothing_half_done(seed: int) -> None:
    chosen, struck, deadline = random.Random(seed), 0, time.monotonic() + SECONDS
    works = work_of([Plain.remote(), Threaded.remote(), Asynchronous.remote()])
    while struck < INTERRUPTS and time.monotonic() < deadline:
        work = chosen.choice(works)
        try:
            signal.setitimer(signal.ITIMER_REAL, chosen.uniform(1e-5, LONGEST_SECONDS))
            right = work()
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert right
        except (TooLate, TaskError) as error:
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert isinstance(error, TooLate) or isinstance(error.cause, TooLate)
            struck += 1
    assert struck == INTERRUPTS
    assert all(work() for work in works)
    assert kernel.available_resources()["CPU"] == 2


def test_a_wait_ends_at_once_and_the_value_can_be_had_later() -> None:
    gate = Gate.remote()
    passed = gate.wait.remote()
    with pytest.raises(TooLate):
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        kernel.get(passed, timeout=SECONDS)
    assert kernel.get(gate.let_through.remote(), timeout=SECONDS)
    assert kernel.get(passed, timeout=SECONDS) == "through"


def test_a_task_fails_with_what_its_handler_raised() -> None:
    @kernel.remote(max_retries=0)
    def endless() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        while True:
            pass

    with pytest.raises(TaskError) as caught:
        kernel.get(endless.remote())
    assert isinstance(caught.value.cause, TooLate)


def test_a_handler_may_use_the_session_while_the_program_waits() -> None:
    got: list[bool] = []
    gate = Gate.remote()
    passed = gate.wait.remote()
    signal.signal(signal.SIGALRM, lambda number, frame: got.append(kernel.get(gate.let_through.remote())))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    assert kernel.get(passed, timeout=SECONDS) == "through"
    assert got == [True]


def test_the_handlers_that_were_set_are_the_programs_own_again_afterwards() -> None:
    assert signal.getsignal(signal.SIGALRM) is too_late
    kernel.shutdown()
    assert signal.getsignal(signal.SIGALRM) is too_late

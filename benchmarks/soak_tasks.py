"""Waves of tasks for the soak: values of all sizes, chains, streams, errors, retries, cancelling, waiting."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import kernel
from benchmarks import waves
from benchmarks.chaos import ledger
from benchmarks.outcome import Outcome
from kernel import exceptions


@kernel.remote(max_retries=-1)
def add(*values: int) -> int:
    """Add up."""
    return sum(values)


@kernel.remote(max_retries=-1)
def slow_add(*values: int) -> int:
    """Add up, so slowly that a kill is likely to meet it."""
    time.sleep(0.02)
    return sum(values)


@kernel.remote(max_retries=-1)
def fill(value: int, size: int) -> np.ndarray:
    """Return an array that says everywhere what it should hold."""
    return np.full(size, value, np.int64)


@kernel.remote(max_retries=-1)
def total(*arrays: np.ndarray) -> int:
    """Add up arrays that lie in the store."""
    return int(sum(array.sum() for array in arrays))


@kernel.remote(max_retries=-1)
def nested(values: list[int]) -> int:
    """Submit tasks from a task."""
    return sum(kernel.get([add.remote(value, 1) for value in values]))


@kernel.remote(max_retries=-1)
def parts_of(start: int, count: int) -> list[int]:
    """Return several results."""
    return list(range(start, start + count))


@kernel.remote(max_retries=0)
def once(value: int) -> int:
    """Never run again: may fail, but only as documented."""
    time.sleep(0.01)
    return value * 2


@kernel.remote(max_retries=-1)
def count_up(limit: int) -> Iterator[int]:
    """Yield in order."""
    yield from range(limit)


@kernel.remote(max_retries=-1)
def fail(value: int) -> int:
    """Raise."""
    raise ValueError(f"{value} is refused")


class NotYet(Exception):
    """Raised by what wants to be tried again."""


@kernel.remote(max_retries=-1, retry_exceptions=[NotYet])
def third_time(folder: str, key: str) -> int:
    """Raise until it has been run three times."""
    ledger.note(folder, key)
    if (times := ledger.count(folder, key)) < 3:
        raise NotYet(times)
    return 3


@kernel.remote(max_retries=-1)
def sleep(seconds: float) -> float:
    """Take a while."""
    time.sleep(seconds)
    return seconds


chain = waves.chain(add, slow_add)
diamond = waves.diamond(add, slow_add)
inside = waves.inside(nested)
streams = waves.streams(count_up)


def arrays(dice: random.Random, outcome: Outcome) -> None:
    """Large values go through the store, from worker to worker; lost ones are made again."""
    sizes = [dice.randrange(1, 400_000) for _ in range(dice.randrange(2, 8))]
    refs = [fill.remote(number, size) for number, size in enumerate(sizes)]
    outcome.check("arrays", total.remote(*refs), sum(number * size for number, size in enumerate(sizes)))


def several(dice: random.Random, outcome: Outcome) -> None:
    """Tasks with several results."""
    start, count = dice.randrange(1000), dice.randrange(2, 20)
    for number, ref in enumerate(parts_of.options(num_returns=count).remote(start, count)):
        outcome.check("several results", ref, start + number)


def not_again(dice: random.Random, outcome: Outcome) -> None:
    """Tasks that may not be run a second time."""
    for value, ref in [(value, once.remote(value)) for value in range(dice.randrange(1, 20))]:
        outcome.check("once", ref, value * 2, (exceptions.WorkerDiedError,))


def left_streams(dice: random.Random, outcome: Outcome) -> None:
    """A stream that is let go of after some items."""
    stream = count_up.remote(10_000)
    for number in range(dice.randrange(5)):
        outcome.check("stream that is left", next(stream), number)


def errors(dice: random.Random, outcome: Outcome) -> None:
    """Errors of user code arrive, also through tasks that needed the result; nobody asks for some of them."""
    for value in range(dice.randrange(1, 10)):
        ref = add.remote(fail.remote(value), 1) if value % 2 else fail.remote(value)
        if value % 3:
            try:
                kernel.get(ref, timeout=60)
                outcome.blame(f"error: {value} was not refused")
            except ValueError as error:
                outcome.compare("error", f"{value} is refused" in str(error), True)


def retries(dice: random.Random, outcome: Outcome, folder: Path) -> None:
    """Tasks that raise until their third time."""
    key = secrets.token_hex(8)
    outcome.check("third time", third_time.remote(str(folder), key), 3)
    ledger.forget(str(folder), key)


def cancelled(dice: random.Random, outcome: Outcome) -> None:
    """Tasks that are cancelled, before or while they run; some by force."""
    refs = [sleep.remote(0.3) for _ in range(dice.randrange(1, 12))]
    time.sleep(dice.random() * 0.1)
    for ref in refs:
        kernel.cancel(ref, force=dice.random() < 0.3)
    for ref in refs:
        outcome.check("cancelled", ref, 0.3, (exceptions.TaskCancelledError,))


def waits(dice: random.Random, outcome: Outcome) -> None:
    """`wait` gives what is there, in any order, once each."""
    values = [dice.randrange(20) / 1000 for _ in range(dice.randrange(1, 40))]
    left, found = [sleep.remote(value) for value in values], []
    while left:
        ready, left = kernel.wait(left, num_returns=dice.randrange(1, len(left) + 1), timeout=60)
        found += kernel.get(ready)
    outcome.compare("wait", sorted(found), sorted(values))


def dropped(dice: random.Random, outcome: Outcome) -> None:
    """References that nobody waits for: puts, tasks, large ones and small ones."""
    for number in range(dice.randrange(1, 50)):
        kernel.put(np.zeros(dice.choice((10, 50_000))))
        fill.remote(number, dice.choice((10, 50_000)))
    outcome.check("after dropped ones", add.remote(1, 2), 3)


def many(dice: random.Random, outcome: Outcome) -> None:
    """Thousands of small tasks at once."""
    count = dice.randrange(500, 3000)
    refs = [add.remote(number, 1) for number in range(count)]
    outcome.check("many", add.remote(*refs), count * (count + 1) // 2)

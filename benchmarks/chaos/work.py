"""Waves of work over the nodes of a cluster. Whatever fails meanwhile, a result is right or a documented error.

Tasks that may run again must give their result whatever happens. Those that may not are allowed the errors that say so,
and what ran is counted in a ledger, so that nothing runs more often than it may.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import kernel
from benchmarks import waves
from benchmarks.chaos import ledger
from benchmarks.outcome import Outcome
from benchmarks.waves import Wave
from kernel import exceptions

SPREAD: dict[str, Any] = {"scheduling_strategy": "SPREAD"}


# -- what runs -------------------------------------------------------------------------------------------------------


@kernel.remote(max_retries=-1, **SPREAD)
def add(*values: int) -> int:
    """Add up."""
    return sum(values)


@kernel.remote(max_retries=-1, **SPREAD)
def slow_add(*values: int) -> int:
    """Add up, so slowly that a fault is likely to meet it."""
    time.sleep(0.02)
    return sum(values)


@kernel.remote(max_retries=-1, **SPREAD)
def fill(value: int, size: int) -> np.ndarray:
    """Return an array that says everywhere what it should hold."""
    return np.full(size, value, np.int64)


@kernel.remote(max_retries=-1, **SPREAD)
def twice(array: np.ndarray) -> np.ndarray:
    """Make a large value of a large value."""
    return array * 2


@kernel.remote(max_retries=-1, **SPREAD)
def total(*arrays: np.ndarray) -> int:
    """Add up arrays that lie in the store."""
    return int(sum(array.sum() for array in arrays))


@kernel.remote(max_retries=-1, **SPREAD)
def nested(values: list[int]) -> int:
    """Submit tasks from a task."""
    return sum(kernel.get([add.remote(value, 1) for value in values]))


@kernel.remote(max_retries=-1, **SPREAD)
def count_up(limit: int) -> Iterator[int]:
    """Yield in order."""
    yield from range(limit)


@kernel.remote(**SPREAD)
def noted(folder: str, key: str, value: int) -> int:
    """Note that it ran."""
    ledger.note(folder, key)
    time.sleep(0.01)
    return value * 2


class NotYet(Exception):
    """Raised by what wants to be tried again."""


@kernel.remote(max_retries=-1, retry_exceptions=[NotYet], **SPREAD)
def third_time(folder: str, key: str) -> int:
    """Raise until it has been run three times."""
    ledger.note(folder, key)
    if (times := ledger.count(folder, key)) < 3:
        raise NotYet(times)
    return 3


@kernel.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1, **SPREAD)
class Steady:
    """Comes back whenever it dies; its calls are run again."""

    def square(self, value: int) -> int:
        """Square."""
        return value * value


@kernel.remote(num_cpus=0, **SPREAD)
class Counter:
    """Counts its calls. `life` is another each time that it is constructed."""

    def __init__(self, folder: str = "") -> None:
        self.life = secrets.token_hex(4)
        self.calls = 0
        self.folder = folder

    def next(self, key: str = "") -> tuple[str, int]:
        """Return the life and the number of this call in it."""
        if key:
            ledger.note(self.folder, key)
        self.calls += 1
        return self.life, self.calls


@kernel.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1, **SPREAD)
class Keeper:
    """Keeps references in its state: given to its constructor, so that it has them again after a restart."""

    def __init__(self, refs: list[kernel.ObjectRef]) -> None:
        self.refs = refs

    def total(self) -> int:
        """Add up what they stand for."""
        return int(sum(np.sum(value) for value in kernel.get(self.refs)))


# -- waves of it -----------------------------------------------------------------------------------------------------


chain = waves.chain(add, slow_add)
diamond = waves.diamond(add, slow_add)
inside = waves.inside(nested)
streams = waves.streams(count_up)


def arrays(dice: random.Random, outcome: Outcome) -> None:
    """Large values travel between stores; lost ones are made again, and before them what they are made of."""
    sizes = [dice.randrange(1, 200_000) for _ in range(dice.randrange(2, 8))]
    refs = [fill.remote(number, size) for number, size in enumerate(sizes)]
    doubled = [twice.remote(ref) for ref in refs]
    expected = sum(number * size for number, size in enumerate(sizes))
    outcome.check("arrays", total.remote(*refs, *doubled), 3 * expected, DISK)
    if dice.random() < 0.5:
        refs.clear()
    for ref, number, size in zip(doubled, range(len(sizes)), sizes, strict=True):
        found, value = outcome.take("arrays", ref, DISK)
        if found:
            outcome.compare("arrays", (len(value), int(value.sum())), (size, 2 * number * size))


def shared(dice: random.Random, outcome: Outcome) -> None:
    """What this program has put is read on every node."""
    size = dice.randrange(1, 400_000)
    ref = kernel.put(np.full(size, 3, np.int64))
    for one in [total.remote(ref) for _ in range(dice.randrange(1, 12))]:
        outcome.check("shared", one, 3 * size, DISK)


def retried(folder: str, retries: int) -> Wave:
    """Return tasks that run once, and `retries` times more, and never more often than that."""
    kind = "once" if not retries else f"retried {retries} times"

    def wave(dice: random.Random, outcome: Outcome) -> None:
        keys = [f"{dice.getrandbits(64):016x}" for _ in range(dice.randrange(1, 20))]
        refs = [noted.options(max_retries=retries).remote(folder, key, number) for number, key in enumerate(keys)]
        for number, (key, ref) in enumerate(zip(keys, refs, strict=True)):
            found = outcome.check(kind, ref, number * 2, (exceptions.WorkerDiedError,))
            times = ledger.count(folder, key)
            if not found <= times <= retries + 1:
                outcome.blame(f"{kind}: it was {'there' if found else 'not there'} and had run {times} times")
            ledger.forget(folder, key)

    return wave


def insisting(folder: str) -> Wave:
    """Return tasks that raise until they have run three times."""

    def wave(dice: random.Random, outcome: Outcome) -> None:
        keys = [f"{dice.getrandbits(64):016x}" for _ in range(dice.randrange(1, 10))]
        for key, ref in [(key, third_time.remote(folder, key)) for key in keys]:
            outcome.check("insisting", ref, 3)
            ledger.forget(folder, key)

    return wave


def steady_actor() -> Wave:
    """Return calls on an actor that restarts."""
    actor = Steady.remote()

    def wave(dice: random.Random, outcome: Outcome) -> None:
        values = [dice.randrange(1000) for _ in range(dice.randrange(1, 50))]
        for value, ref in [(value, actor.square.remote(value)) for value in values]:
            outcome.check("restarting actor", ref, value * value)

    return wave


def keeping_actors(dice: random.Random, outcome: Outcome) -> None:
    """An actor that keeps references in its state, when this program has dropped them, and restarts with them."""
    sizes = [dice.choice((10, 100_000)) for _ in range(3)]
    refs = [fill.remote(number, size) for number, size in enumerate(sizes)]
    refs.append(kernel.put(np.full(sizes[0], 5, np.int64)))
    keeper = Keeper.remote(refs)
    del refs
    expected = sum(number * size for number, size in enumerate(sizes)) + 5 * sizes[0]
    for ref in [keeper.total.remote() for _ in range(3)]:
        outcome.check("keeping actor", ref, expected, DISK)


def counting_actor(folder: str, restarts: int) -> Wave:
    """Return an actor that counts its calls; each call runs at most once, and none is forgotten within a life.

    When it is dead for good, another takes its place.
    """
    kind = "counting actor that restarts" if restarts else "counting actor"
    allowed = (exceptions.ActorDiedError, *([exceptions.ActorUnavailableError] if restarts else []))
    make = Counter.options(max_restarts=restarts).remote
    state: dict[str, Any] = {"actor": make(folder), "life": "", "calls": 0}

    def wave(dice: random.Random, outcome: Outcome) -> None:
        keys = [f"{dice.getrandbits(64):016x}" for _ in range(dice.randrange(1, 50))]
        refs = [state["actor"].next.remote(key) for key in keys]
        dead = False
        for key, ref in zip(keys, refs, strict=True):
            found, value = outcome.take(kind, ref, allowed)
            times = ledger.count(folder, key)
            if not found <= times <= 1:
                outcome.blame(f"{kind}: a call was {'there' if found else 'not there'} and had run {times} times")
            ledger.forget(folder, key)
            if not found:
                dead = True
                continue
            life, calls = value
            if life != state["life"]:
                state.update(life=life, calls=0)
            state["calls"] += 1
            if dead:  # calls that failed may have run
                state["calls"] = max(state["calls"], calls)
            outcome.compare(kind, calls, state["calls"])
        if dead and not restarts:
            state.update(actor=make(folder), life="", calls=0)

    return wave


DISK = (exceptions.OutOfDiskError, exceptions.ObjectStoreFullError, exceptions.SpillError)
"""What may become of large values while the disk of a node is full."""


def all_waves(folder: str) -> list[Wave]:
    """Return every kind of work; `folder` is for the ledger."""
    return [
        chain, diamond, arrays, shared, inside, streams, keeping_actors, retried(folder, 0), retried(folder, 2),
        insisting(folder), steady_actor(), counting_actor(folder, 0), counting_actor(folder, -1),
    ]  # fmt: skip

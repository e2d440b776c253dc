"""Waves of actor calls for the soak: actors that restart, that die, async, threaded, named, short-lived, with streams.

Those that `lasting()` makes are spared by the killer, so that it is seen whether a worker that lives long grows.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np

import kernel
from benchmarks.outcome import Outcome
from benchmarks.soak_tasks import add, fill, total
from benchmarks.waves import Wave
from kernel import exceptions
from kernel_engine.tasks.tracing import KEPT


@kernel.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class Steady:
    """Comes back whenever it is killed; its calls are run again."""

    def square(self, value: int) -> int:
        """Square."""
        return value * value

    def count_up(self, limit: int) -> Iterator[int]:
        """Yield in order."""
        yield from range(limit)

    def refuse(self, value: int) -> int:
        """Raise."""
        raise KeyError(value)


@kernel.remote(num_cpus=0)
class Mortal:
    """Counts its calls; gone for good when it is killed."""

    def __init__(self) -> None:
        self.calls = 0

    def next(self) -> int:
        """Return the number of this call."""
        self.calls += 1
        return self.calls


@kernel.remote(num_cpus=0, max_concurrency=8)
class Lasting:
    """Lives as long as the soak. It submits, puts and gets itself, from several threads."""

    def pid(self) -> int:
        """Return its process id."""
        return os.getpid()

    def work(self, number: int) -> int:
        """Use everything that a program can use."""
        array = kernel.get(fill.remote(number, 60_000))
        refs = [add.remote(number, step) for step in range(10)]
        stored = kernel.put(np.full(30_000, number))
        return int(array[-1]) + sum(kernel.get(refs)) + kernel.get(total.remote(stored))


@kernel.remote(num_cpus=0)
class LastingAsync:
    """As `Lasting`, with coroutines."""

    async def pid(self) -> int:
        """Return its process id."""
        return os.getpid()

    async def work(self, number: int) -> int:
        """Await tasks, some beside each other."""
        array = await fill.remote(number, 60_000)
        rest = await asyncio.gather(*[add.remote(number, step) for step in range(10)])
        return int(array[-1]) + sum(rest)

    async def count_up(self, limit: int) -> AsyncIterator[int]:
        """Yield in order."""
        for number in range(limit):
            yield number


def steady_actor() -> Wave:
    """Return calls on an actor that restarts."""
    actor = Steady.remote()

    def wave(dice: random.Random, outcome: Outcome) -> None:
        values = [dice.randrange(1000) for _ in range(dice.randrange(1, 50))]
        for value, ref in [(value, actor.square.remote(value)) for value in values]:
            outcome.check("restarting actor", ref, value * value)
        for number, ref in enumerate(actor.count_up.remote(dice.randrange(1, 50))):
            outcome.check("stream of an actor", ref, number)
        try:
            kernel.get(actor.refuse.remote(3), timeout=60)
            outcome.blame("restarting actor: a call did not raise")
        except KeyError:
            outcome.compare("error of an actor", True, True)

    return wave


def mortal_actor() -> Wave:
    """Return calls on an actor that does not restart; when it dies another takes its place."""
    state: dict[str, Any] = {"actor": Mortal.remote(), "calls": 0}

    def wave(dice: random.Random, outcome: Outcome) -> None:
        refs = [state["actor"].next.remote() for _ in range(dice.randrange(1, 50))]
        alive = True
        for ref in refs:
            state["calls"] += 1
            alive = outcome.check("mortal actor", ref, state["calls"], (exceptions.ActorDiedError,)) and alive
        if not alive:
            state.update(actor=Mortal.remote(), calls=0)

    return wave


def lasting() -> tuple[Wave, dict[str, int]]:
    """Return calls on actors that nobody kills, and their process ids by name."""
    threaded, coroutines = Lasting.remote(), LastingAsync.remote()
    pids = {"threaded actor": kernel.get(threaded.pid.remote()), "async actor": kernel.get(coroutines.pid.remote())}
    for actor in (threaded, coroutines):  # memory that a process only fills once is not growth
        kernel.get([actor.pid.remote() for _ in range(KEPT)])

    def wave(dice: random.Random, outcome: Outcome) -> None:
        numbers = [dice.randrange(1000) for _ in range(dice.randrange(1, 12))]
        calls = [(number, threaded.work.remote(number), coroutines.work.remote(number)) for number in numbers]
        for number, call, coroutine in calls:
            outcome.check("threaded actor", call, 30_011 * number + 45)
            outcome.check("async actor", coroutine, 11 * number + 45)
        for number, ref in enumerate(coroutines.count_up.remote(dice.randrange(1, 30))):
            outcome.check("stream of an async actor", ref, number)

    return wave, pids


def short_lived(dice: random.Random, outcome: Outcome) -> None:
    """Actors that are made, found by their name, called, and dropped or ended."""
    name = secrets.token_hex(4)
    actor = Steady.options(name=name).remote()
    value = dice.randrange(1000)
    outcome.check("named actor", kernel.get_actor(name).square.remote(value), value * value)
    if dice.random() < 0.5:
        kernel.kill(actor)

"""Random kills under a load whose results are known: `python -m benchmarks.soak --minutes 10`.

Waves of work go through one session: chains and diamonds of tasks with small and large values, tasks inside tasks,
generators, an actor that restarts and one that does not. Meanwhile a thread kills a random worker, or the template
process, at random moments, and another the agent or the program of a session beside. A value must be right; an error
must be one that is documented for that work; nothing may hang or be left behind. The same `--seed` gives the same work
and the same choices.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import kernel
from benchmarks.outcome import Hang, Outcome
from benchmarks.side_session import SideKiller
from kernel import exceptions
from kernel.testing.faults import agents_of, kill, template_of, workers_of
from kernel.testing.leaks import no_leaks

SIDE_PAUSES = 20
"""How many times rarer than in this session processes are killed in a session beside."""


# -- the work --------------------------------------------------------------------------------------------------------


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


@kernel.remote(max_retries=0)
def once(value: int) -> int:
    """Never run again: may fail, but only as documented."""
    time.sleep(0.01)
    return value * 2


@kernel.remote(max_retries=-1)
def count_up(limit: int) -> Iterator[int]:
    """Yield in order."""
    yield from range(limit)


@kernel.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class Steady:
    """Comes back whenever it is killed; its calls are run again."""

    def square(self, value: int) -> int:
        """Square."""
        return value * value


@kernel.remote(num_cpus=0)
class Mortal:
    """Counts its calls; gone for good when it is killed."""

    def __init__(self) -> None:
        self.calls = 0

    def next(self) -> int:
        """Return the number of this call."""
        self.calls += 1
        return self.calls


# -- waves of it -----------------------------------------------------------------------------------------------------


Wave = Callable[[random.Random, Outcome], None]


def chain(dice: random.Random, outcome: Outcome) -> None:
    """Each task waits for the one before."""
    start, length = dice.randrange(1000), dice.randrange(2, 30)
    ref = add.remote(start)
    for step in range(length):
        ref = (slow_add if step % 10 == 5 else add).remote(ref, 1)
    outcome.check("chain", ref, start + length)


def diamond(dice: random.Random, outcome: Outcome) -> None:
    """Many depend on one, one depends on many."""
    start, width = dice.randrange(1000), dice.randrange(2, 60)
    top = add.remote(start)
    outcome.check("diamond", slow_add.remote(*[slow_add.remote(top, i) for i in range(width)]),
                  width * start + width * (width - 1) // 2)  # fmt: skip


def arrays(dice: random.Random, outcome: Outcome) -> None:
    """Large values go through the store, from worker to worker; lost ones are made again."""
    sizes = [dice.randrange(1, 400_000) for _ in range(dice.randrange(2, 8))]
    refs = [fill.remote(number, size) for number, size in enumerate(sizes)]
    outcome.check("arrays", total.remote(*refs), sum(number * size for number, size in enumerate(sizes)))


def inside(dice: random.Random, outcome: Outcome) -> None:
    """Tasks that submit tasks, and wait for them."""
    values = [dice.randrange(1000) for _ in range(dice.randrange(1, 40))]
    refs = [nested.remote(values) for _ in range(4)]
    for ref in refs:
        outcome.check("inside", ref, sum(values) + len(values))


def not_again(dice: random.Random, outcome: Outcome) -> None:
    """Tasks that may not be run a second time."""
    for value, ref in [(value, once.remote(value)) for value in range(dice.randrange(1, 20))]:
        outcome.check("once", ref, value * 2, (exceptions.WorkerDiedError,))


def streams(dice: random.Random, outcome: Outcome) -> None:
    """Generators give their items in order."""
    limit = dice.randrange(1, 200)
    for number, ref in enumerate(count_up.remote(limit)):
        outcome.check("stream", ref, number)


def steady_actor() -> Wave:
    """Return calls on an actor that restarts."""
    actor = Steady.remote()

    def wave(dice: random.Random, outcome: Outcome) -> None:
        values = [dice.randrange(1000) for _ in range(dice.randrange(1, 50))]
        for value, ref in [(value, actor.square.remote(value)) for value in values]:
            outcome.check("restarting actor", ref, value * value)

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


# -- the faults ------------------------------------------------------------------------------------------------------


class Killer(threading.Thread):
    """Kills a worker, now and then the template, with pauses of `every` seconds on average."""

    def __init__(self, seed: int, every: float, faults: Counter[str]) -> None:
        super().__init__(name="killer", daemon=True)
        self._faults = faults
        self._dice = random.Random(seed)
        self._every = every
        self._done = threading.Event()

    def run(self) -> None:
        """Kill until stopped."""
        while not self._done.wait(self._dice.expovariate(1 / self._every)):
            for agent in agents_of():
                self._strike(agent)

    def stop(self) -> None:
        """End."""
        self._done.set()
        self.join()

    def _strike(self, agent: int) -> None:
        try:
            if self._dice.random() < 0.1:
                kill(template_of(agent))
                self._faults["template killed"] += 1
            elif workers := workers_of(agent):
                kill(self._dice.choice(workers))
                self._faults["worker killed"] += 1
        except (AssertionError, ProcessLookupError):
            return  # somebody else was quicker


# -- the whole -------------------------------------------------------------------------------------------------------


def resident_megabytes(pid: int) -> float:
    """Return what a process holds in memory."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:")) / 1000


def soak(minutes: float, seed: int, every: float, root: str, outcome: Outcome) -> None:
    """Run waves until the time is over, noting in `outcome` what was seen, the faults, and how much memory grew."""
    dice = random.Random(seed)
    kernel.init(num_cpus=4, object_store_memory=256 << 20, temp_dir=root, log_to_driver=False, logging_level="ERROR")
    killers = [
        Killer(seed + 1, every, outcome.faults),
        SideKiller(seed + 2, SIDE_PAUSES * every, outcome.faults, outcome.wrong),
    ]
    try:
        waves: list[Wave] = [chain, diamond, arrays, inside, not_again, streams, steady_actor(), mortal_actor()]
        for wave in waves:
            wave(dice, outcome)
        agent = agents_of()[0]
        before = {"program": resident_megabytes(os.getpid()), "node agent": resident_megabytes(agent)}
        for killer in killers:
            killer.start()
        end = time.monotonic() + minutes * 60
        said = time.monotonic()
        while time.monotonic() < end and len(outcome.wrong) < 10:
            try:
                dice.choice(waves)(dice, outcome)
            except Hang:
                break
            if time.monotonic() - said > 10:
                said = time.monotonic()
                print(f"  {end - said:5.0f} s to go: {outcome.summary()}", file=sys.stderr, flush=True)
        after = {"program": resident_megabytes(os.getpid()), "node agent": resident_megabytes(agent)}
        outcome.memory += [f"{name} {before[name]:.0f} -> {after[name]:.0f} MB" for name in before]
    finally:
        for killer in killers:
            if killer.is_alive():
                killer.stop()
        kernel.shutdown()


def main(arguments: list[str] | None = None) -> int:
    """Soak, report, and return 1 when anything was wrong or left behind."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="repeats the same work and choices (default: 0)")
    parser.add_argument("--every", type=float, default=0.5, help="mean seconds between two kills (default: 0.5)")
    given = parser.parse_args(arguments)
    root = tempfile.mkdtemp(prefix="ks-", dir="/tmp")
    os.mkdir(os.path.join(root, f"kernel-{os.getuid()}"), 0o700)
    outcome, left = Outcome(), "nothing"
    try:
        with no_leaks(root):
            try:
                soak(given.minutes, given.seed, given.every, root, outcome)
            except AssertionError as error:
                outcome.wrong.append(f"the soak itself broke off: {error}")
    except AssertionError as error:
        left = str(error)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    rows = {
        "faults injected": ", ".join(f"{count} x {what}" for what, count in outcome.faults.items()),
        "right results": ", ".join(f"{what} {count:,}" for what, count in outcome.right.items()),
        "documented errors": ", ".join(f"{what} {count}" for what, count in outcome.documented.items()) or "none",
        "wrong results": "none" if not outcome.wrong else "\n  ".join(["", *outcome.wrong]),
        "memory": ", ".join(outcome.memory),
        "left behind": left,
    }
    print(f"{given.minutes:g} minutes, seed {given.seed}: {outcome.summary()}")
    for label, text in rows.items():
        print(f"{label + ':':<19}{text}")
    return 1 if outcome.wrong or left != "nothing" else 0


if __name__ == "__main__":
    sys.exit(main())

"""Work of every kind under random kills, and what it costs in memory: `python -m benchmarks.soak --minutes 30`.

Waves of work go through one session: tasks with small and large values, chains, streams, errors, retries, cancelling,
waiting; actors that restart, that die, async, threaded, named; placement groups, environments, spilling, questions.
Meanwhile a thread kills a random worker, or the template process, at random moments, and another the agent or the
program of a session beside. A value must be right; an error must be one that is documented for that work; nothing may
hang or be left behind. The same `--seed` gives the same work and the same choices.

Between waves the memory of the processes that live all the while is looked at. At the end a table shows it over time,
and how much each process gains of its own in ten minutes, after a warm-up of ten minutes (a third of a short soak).
"""

from __future__ import annotations

import argparse
import functools
import gc
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import kernel
from benchmarks import memory_looks, soak_actors, soak_surroundings, soak_tasks
from benchmarks.memory_looks import Look
from benchmarks.outcome import Hang, Outcome
from benchmarks.side_session import SideKiller
from benchmarks.waves import Wave
from kernel.testing.faults import agents_of, kill, template_of, workers_of
from kernel.testing.leaks import no_leaks
from kernel_processes.system.processes import is_alive

SIDE_PAUSES = 20
"""How many times rarer than in this session processes are killed in a session beside."""
LOOK_SECONDS = 10.0
WARM_UP_MINUTES = 10.0
LEAST_MB = 1.0
"""Less growth than this in ten minutes is none."""
FIRST_CALLS = 40
"""So many waves of thousands of tasks come first: every worker remembers its last 20,000 calls (`kernel timeline`)."""
RARE = 10
"""Waves that take long come so many times more rarely than others."""


class Killer(threading.Thread):
    """Kills a worker that is not `spared`, now and then the template, with pauses of `every` seconds on average."""

    def __init__(self, seed: int, every: float, faults: Counter[str], spared: dict[str, int]) -> None:
        super().__init__(name="killer", daemon=True)
        self._faults = faults
        self._dice = random.Random(seed)
        self._every = every
        self._spared = spared
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
            elif workers := sorted(set(workers_of(agent)) - set(self._spared.values())):
                kill(self._dice.choice(workers))
                self._faults["worker killed"] += 1
        except (AssertionError, ProcessLookupError):
            return  # somebody else was quicker


@kernel.remote(max_retries=-1)
def own_pid() -> int:
    """Return the process id of a worker for tasks."""
    return os.getpid()


class Watch:
    """Looks at the processes that live all the while, every LOOK_SECONDS. `spared` are workers, by what they are."""

    def __init__(self, spared: dict[str, int]) -> None:
        self.looks: list[Look] = []
        self._spared = spared
        self._processes = {"program": os.getpid(), "node agent": agents_of()[0]}
        self._task_worker = "task worker 1"
        self._begun = time.monotonic()
        self._next = 0.0

    def tick(self) -> None:
        """Look, if it is time to. A task worker that retired is followed by another one, under a name of its own."""
        now = time.monotonic() - self._begun
        if now < self._next:
            return
        self._next = now + LOOK_SECONDS
        if not is_alive(self._spared.get(self._task_worker, 0)):
            number = sum("task worker" in name for name in self._spared) + 1
            self._task_worker = f"task worker {number}"
            self._spared[self._task_worker] = kernel.get(own_pid.remote(), timeout=60)
        gc.collect()
        self.looks.append(memory_looks.look(now, self._processes | self._spared))


def waves_of(root: str, folder: Path, lasting: Wave) -> list[Wave]:
    """Return the work, each wave as often as it is to be chosen."""
    often: list[Wave] = [
        soak_tasks.chain, soak_tasks.diamond, soak_tasks.arrays, soak_tasks.inside, soak_tasks.several,
        soak_tasks.not_again, soak_tasks.streams, soak_tasks.left_streams, soak_tasks.errors,
        functools.partial(soak_tasks.retries, folder=folder), soak_tasks.cancelled, soak_tasks.waits,
        soak_tasks.dropped, soak_actors.steady_actor(), soak_actors.mortal_actor(), lasting, soak_actors.short_lived,
        soak_surroundings.groups, soak_surroundings.named_bytes,
    ]  # fmt: skip
    rare: list[Wave] = [
        soak_tasks.many, functools.partial(soak_surroundings.environments, folder=folder), soak_surroundings.spilled,
        functools.partial(soak_surroundings.questions, root=root, folder=folder),
    ]  # fmt: skip
    return often * RARE + rare * (RARE // 3)


def soak(minutes: float, seed: int, every: float, root: str, folder: Path, outcome: Outcome) -> list[Look]:
    """Run waves until the time is over, noting in `outcome` what was seen; return the looks at memory.

    The session has its files below `root`; `folder` is for those of the waves.
    """
    dice = random.Random(seed)
    kernel.init(num_cpus=4, object_store_memory=256 << 20, temp_dir=root, log_to_driver=False, logging_level="CRITICAL")
    try:
        lasting, spared = soak_actors.lasting()
        killers = [
            Killer(seed + 1, every, outcome.faults, spared),
            SideKiller(seed + 2, SIDE_PAUSES * every, outcome.faults, outcome.wrong),
        ]
        waves = waves_of(root, folder, lasting)
        for wave in [*dict.fromkeys(waves), *[soak_tasks.many] * FIRST_CALLS]:
            wave(dice, outcome)
        try:
            for killer in killers:
                killer.start()
            return _run(waves, dice, time.monotonic() + minutes * 60, Watch(spared), outcome)
        finally:
            for killer in killers:
                if killer.is_alive():
                    killer.stop()
    finally:
        kernel.shutdown()


def _run(waves: list[Wave], dice: random.Random, end: float, watch: Watch, outcome: Outcome) -> list[Look]:
    said = time.monotonic()
    while time.monotonic() < end and len(outcome.wrong) < 10:
        try:
            dice.choice(waves)(dice, outcome)
            watch.tick()
        except Hang:
            break
        if time.monotonic() - said > 10:
            said = time.monotonic()
            own = ", ".join(f"{name} {memory.own:.1f}" for name, memory in watch.looks[-1].memory.items())
            print(f"  {end - said:5.0f} s to go: {outcome.summary()}; own MB: {own}", file=sys.stderr, flush=True)
    return watch.looks


def main(arguments: list[str] | None = None) -> int:
    """Soak, report, and return 1 when anything was wrong or left behind."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="repeats the same work and choices (default: 0)")
    parser.add_argument("--every", type=float, default=0.5, help="mean seconds between two kills (default: 0.5)")
    given = parser.parse_args(arguments)
    root = tempfile.mkdtemp(prefix="ks-", dir="/tmp")
    os.mkdir(os.path.join(root, f"kernel-{os.getuid()}"), 0o700)
    outcome, left, looks = Outcome(), "nothing", list[Look]()
    try:
        with tempfile.TemporaryDirectory(prefix="soak-") as folder, no_leaks(root):
            try:
                looks = soak(given.minutes, given.seed, given.every, root, Path(folder), outcome)
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
        "growth": _growth(looks, given.minutes),
        "left behind": left,
    }
    print(f"{given.minutes:g} minutes, seed {given.seed}: {outcome.summary()}")
    for label, text in rows.items():
        print(f"{label + ':':<19}{text}")
    return 1 if outcome.wrong or left != "nothing" else 0


def _growth(looks: list[Look], minutes: float) -> str:
    """Return the table of memory, and in a line which processes grow."""
    if not looks:
        return "not known"
    warm_up = 60 * min(WARM_UP_MINUTES, minutes / 3)
    growths = {name: memory_looks.growth(looks, name, warm_up) for name in looks[-1].memory}
    growing = [f"{name} {growth:+.2f}" for name, growth in growths.items() if growth is not None and growth >= LEAST_MB]
    verdict = f"in MB per 10 minutes after the first {warm_up / 60:g}: {', '.join(growing) or 'none'}"
    return f"{verdict}\n\n{memory_looks.table(looks, warm_up)}\n"


if __name__ == "__main__":
    sys.exit(main())

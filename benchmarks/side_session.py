"""A session beside others that is killed as a whole: its agent, its program, or both at once.

`SideSession` starts a program with a session of its own under load; `strike` kills, and says what of it is left when
nothing should be. `python -m benchmarks.side_session FOLDER` is the program.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter

import numpy as np

import kernel
from kernel import exceptions
from kernel.testing.faults import agents_of, kill, title_of
from kernel.testing.leaks import MARK, marked_processes

START_SECONDS = 120.0
PATIENCE_SECONDS = 5.0
"""How long what was killed may leave things behind."""
VICTIMS = ("agent", "program", "agent and program")


class SideSession:
    """A program and its session, with a folder for the session's files. A context manager."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="ks-", dir="/tmp")
        self.mark = secrets.token_hex(8)
        self._program: subprocess.Popen[str] | None = None

    def __enter__(self) -> SideSession:
        self._program = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.side_session", self.folder],
            env={**os.environ, MARK: self.mark, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *error: object) -> None:
        assert self._program is not None
        for pid in marked_processes(self.mark):
            kill(pid)
        self._program.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)

    def strike(self, victim: str, after: float, patience: float = PATIENCE_SECONDS) -> list[str]:
        """Kill `victim` (one of VICTIMS) `after` seconds of work; return what is wrong `patience` seconds later."""
        program = self._program
        assert program is not None and program.stdout is not None
        giving_up = threading.Timer(START_SECONDS, program.kill)
        giving_up.start()
        started = program.stdout.readline() == "ready\n"
        giving_up.cancel()
        if not started:
            return [f"the program of a side session did not start: {program.communicate()[1][-2000:]}"]
        time.sleep(after)
        pids = {"agent": agents_of(program.pid), "program": [program.pid]}
        for pid in [pid for name in victim.split(" and ") for pid in pids[name]]:
            kill(pid)
        deadline = time.monotonic() + patience
        while (left := self.left()) and time.monotonic() < deadline:
            time.sleep(0.02)
        if not left and victim == "agent" and program.wait() != 0:
            return [f"the program of a session whose agent was killed said: {program.communicate()[1][-2000:]}"]
        return [f"{patience:g} s after its {victim} was killed: {item}" for item in left]

    def left(self) -> list[str]:
        """Return the processes and files of the session that are there now, in words."""
        processes = [f"process {pid} ({title_of(pid)})" for pid in marked_processes(self.mark)]
        files = [f"file {os.path.join(folder, name)}" for folder, _, names in os.walk(self.folder) for name in names]
        return processes + files


class SideKiller(threading.Thread):
    """Starts a side session and kills it, again and again, with pauses of `every` seconds on average."""

    def __init__(self, seed: int, every: float, faults: Counter[str], wrong: list[str]) -> None:
        super().__init__(name="side-killer", daemon=True)
        self._dice = random.Random(seed)
        self._every = every
        self._faults = faults
        self._wrong = wrong
        self._done = threading.Event()

    def run(self) -> None:
        """Kill until stopped."""
        while not self._done.wait(self._dice.expovariate(1 / self._every)):
            victim = self._dice.choice(VICTIMS)
            with SideSession() as side:
                self._wrong += side.strike(victim, self._dice.uniform(0, 1))
            self._faults[f"{victim} of a session killed"] += 1

    def stop(self) -> None:
        """End."""
        self._done.set()
        self.join()


# -- the program -----------------------------------------------------------------------------------------------------


@kernel.remote(max_retries=-1)
def double(values: np.ndarray) -> np.ndarray:
    """Return a large array for a large array."""
    return values * 2


@kernel.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class Total:
    """Adds up."""

    def of(self, values: np.ndarray) -> float:
        """Return the sum."""
        return float(values.sum())


def work(folder: str) -> None:
    """Work until this process is killed, or its session ends."""
    kernel.init(num_cpus=2, object_store_memory=64 << 20, temp_dir=folder, log_to_driver=False, logging_level="error")
    actor = Total.remote()
    print("ready", flush=True)
    while True:
        arrays = [double.remote(np.full(20_000, number)) for number in range(10)]
        totals = kernel.get([actor.of.remote(array) for array in arrays])
        assert totals == [number * 40_000 for number in range(10)], totals


if __name__ == "__main__":
    try:
        work(sys.argv[1])
    except exceptions.SessionEndedError:
        sys.exit(0)

"""Work and disturbances let loose on each other for a while, and what is left of it afterwards."""

from __future__ import annotations

import gc
import os
import random
import shutil
import sys
import threading
import time
from contextlib import ExitStack, suppress
from typing import Any

import kernel
from benchmarks.chaos.disturbances import PERIPHERAL, Disturbances, Disturber, add_small_node
from benchmarks.chaos.references import RandomProgram
from benchmarks.chaos.work import all_waves
from benchmarks.outcome import Hang, Outcome
from kernel.testing.clocks import jumping_clock
from kernel.testing.cluster import Cluster
from kernel.testing.disks import SmallDisk, why_not

NODES = 3
"""Beside the head's own."""
DEATH_SECONDS = 2.5
THREADS = 3
DISK_BYTES = 96 << 20
STORE_BYTES = 64 << 20
SAY_SECONDS = 10.0
LEFT_SECONDS = 20.0
"""How long after everything was dropped something may still be there."""


def leftovers() -> list[str]:
    """Return, in words, what the processes and stores of the cluster still hold, and which resources are taken."""
    gc.collect()
    found = kernel.api.session.ensure_session().query("memory")
    rows = [f"{row['role']} {row['pid']} holds {row['rows']}" for row in found["processes"] if row["count"]]
    stored = [f"stored: {object.hex()}, {rest}" for object, *rest in found["stored"]]
    free, there = kernel.available_resources(), kernel.cluster_resources()
    taken = [f"{there[name] - free.get(name, 0):g} of {there[name]:g} {name} taken" for name in there
             if name != "object_store_memory" and there[name] - free.get(name, 0) > 1e-6]  # fmt: skip
    return rows + stored + taken + [f"{pid} says nothing" for pid in found["silent"]]


def wait_until_empty(seconds: float = LEFT_SECONDS) -> list[str]:
    """Return what is still there when nothing should be, after `seconds` at most."""
    deadline = time.monotonic() + seconds
    while (left := leftovers()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


class Worker(threading.Thread):
    """Runs one wave after another until the time is over, or there is no use in going on."""

    def __init__(self, outcome: Outcome, folder: str, seed: int, end: float) -> None:
        super().__init__(name="work", daemon=True)
        self._outcome, self._folder, self.end = outcome, folder, end
        self._dice = random.Random(seed)

    def run(self) -> None:
        """Work."""
        waves = all_waves(self._folder)
        while time.monotonic() < self.end and len(self._outcome.wrong) < 10:
            try:
                self._dice.choice(waves)(self._dice, self._outcome)
            except Hang:
                return
            except Exception as error:
                self._outcome.blame(f"work broke off: {type(error).__name__}: {error}")


class References(threading.Thread):
    """Runs one program over references after another, with processes killed."""

    def __init__(self, outcome: Outcome, seed: int, end: float) -> None:
        super().__init__(name="references", daemon=True)
        self._outcome, self._seed, self._end = outcome, seed, end

    def run(self) -> None:
        """Run programs."""
        while time.monotonic() < self._end and len(self._outcome.wrong) < 10:
            self._seed += 1
            try:
                RandomProgram(self._seed, self._outcome, steps=40, deaths=True, undisturbed=False).run()
            except Hang:
                return
            except Exception as error:
                self._outcome.blame(f"program {self._seed} broke off: {type(error).__name__}: {error}")


def soak(seconds: float, seed: int, every: float, outcome: Outcome, folder: str, only: list[str]) -> list[str]:
    """Disturb a cluster at work for so long, and return what was leaked. `only` are the kinds of faults, [] for all."""
    with ExitStack() as exits:
        clock = exits.enter_context(jumping_clock())
        cluster = exits.enter_context(
            Cluster(
                num_cpus=1,
                object_store_memory=4 * STORE_BYTES,
                death_seconds=DEATH_SECONDS,
                head_apart=True,
                faulty_network=True,
                plugins={"metadata_store": "sqlite"},
            )
        )
        disk = None if why_not() else exits.enter_context(SmallDisk(DISK_BYTES))
        if disk is not None:
            add_small_node(cluster, disk)
        cluster.connect(log_to_driver=False, logging_level="ERROR")
        many = [Disturbances(cluster, outcome, random.Random(seed + number), clock, disk) for number in range(2)]
        for disturbances in many:
            disturbances.death_seconds = DEATH_SECONDS
        for _ in range(NODES):
            many[0].add_node()
        left = _disturbed(many, seconds, seed, every, outcome, folder, only)
        if left or outcome.wrong:
            _keep_logs(cluster, outcome.logs)
    return left


def _disturbed(
    many: list[Disturbances], seconds: float, seed: int, every: float, outcome: Outcome, folder: str, only: list[str]
) -> list[str]:
    end = time.monotonic() + seconds
    kinds = [kind for kind in many[0].kinds() if not only or kind in only]
    work: list[Any] = [Worker(outcome, folder, seed + number, end) for number in range(THREADS)]
    work.append(References(outcome, seed * 1_000_000, end))
    disturbers = [
        Disturber(many[0], [kind for kind in kinds if kind in PERIPHERAL], every / 2, seed + 1),
        Disturber(many[1], [kind for kind in kinds if kind not in PERIPHERAL], every, seed + 2),
    ]
    disturbers = [one for one in disturbers if one.kinds]
    for thread in [*work, *disturbers]:
        thread.start()
    while any(thread.is_alive() for thread in work):
        work[0].join(SAY_SECONDS) if work[0].is_alive() else time.sleep(1.0)
        now = ", ".join(one.kind for one in disturbers if one.kind)
        print(f"  {end - time.monotonic():5.0f} s to go: {outcome.summary()}; now: {now}", file=sys.stderr, flush=True)
        if time.monotonic() > end:
            break
    for disturber in disturbers:
        disturber.stop()
    for thread in work:
        thread.join()
    work.clear()
    return wait_until_empty()


def _keep_logs(cluster: Cluster, place: str) -> None:
    for node in cluster.nodes if place else ():
        with suppress(OSError):  # it is gone
            shutil.copytree(os.path.join(node.directory, "logs"), os.path.join(place, node.id), dirs_exist_ok=True)

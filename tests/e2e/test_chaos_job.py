"""Ten thousand tasks that depend on each other, and actors, while thirty processes die: every result is right."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import numpy
import pytest

import kernel
from benchmarks.chaos import ledger
from benchmarks.chaos.soak import wait_until_empty
from kernel.testing import Cluster
from kernel.testing.faults import kill, template_of, wait_until

LAYERS, WIDTH, KILLS = 50, 200, 30
SECONDS = 100.0


@kernel.remote(max_retries=-1, scheduling_strategy="SPREAD")
def combine(number: int, *values: int) -> int:
    return (number + sum(values)) % 1_000_003


@kernel.remote(max_retries=-1, scheduling_strategy="SPREAD")
def expand(value: int) -> numpy.ndarray:
    return numpy.full(30_000, value)


@kernel.remote(max_retries=-1, scheduling_strategy="SPREAD")
def shrink(array: numpy.ndarray) -> int:
    assert (array == array[0]).all()
    return int(array[0])


@kernel.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy="SPREAD")
class Adder:
    """Adds, and notes each addition: one that is made again is noted again, and gives the same."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def add(self, layer: int, value: int) -> int:
        ledger.note(self.folder, str(layer))
        return value + layer


class Killer(threading.Thread):
    """Kills workers, templates and agents, at moments that depend on how far the job is."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__(daemon=True)
        self.cluster, self.dice = cluster, random.Random(seed)
        self.killed: list[str] = []
        self.stop = threading.Event()

    def run(self) -> None:
        while len(self.killed) < KILLS and not self.stop.wait(self.dice.uniform(0, 0.2)):
            kind = "agent" if len(self.killed) % 10 == 5 else "template" if len(self.killed) % 10 == 9 else "worker"
            node = self.dice.choice(self.cluster.nodes[1:])
            try:
                if kind == "agent":
                    self.cluster.kill_agent(node)
                    self.cluster.add_node(num_cpus=2)
                elif kind == "template":
                    kill(template_of(node.agent))
                else:
                    kill(self.dice.choice(node.workers()))
            except (AssertionError, IndexError, ProcessLookupError):
                continue  # there was none
            self.killed.append(kind)


@pytest.mark.parametrize("seed", [1])
def test_thirty_kills_during_ten_thousand_tasks_change_no_result(seed: int, tmp_path: Path) -> None:
    kernel.shutdown()
    dice = random.Random(seed)
    with Cluster(num_cpus=1) as cluster:
        for _ in range(2):
            cluster.add_node(num_cpus=2)
        cluster.connect(log_to_driver=False, logging_level="ERROR")
        adder = Adder.remote(str(tmp_path))
        killer = Killer(cluster, seed)
        killer.start()
        expected = list(range(WIDTH))
        refs: list = [combine.remote(value) for value in expected]
        for layer in range(1, LAYERS):
            picks = [dice.sample(range(WIDTH), dice.randrange(1, 4)) for _ in range(WIDTH)]
            before, refs = refs, [combine.remote(i, *[refs[j] for j in pick]) for i, pick in enumerate(picks)]
            expected = [(i + sum(expected[j] for j in pick)) % 1_000_003 for i, pick in enumerate(picks)]
            del before
            refs[0] = shrink.remote(expand.remote(refs[0]))
            refs[1] = adder.add.remote(layer, refs[1])
            expected[1] += layer
            if layer % 5 == 0:  # so that the job goes on for as long as there are kills
                wait_until(lambda: len(killer.killed) >= KILLS * layer / LAYERS, SECONDS, "kills")  # noqa: B023
        assert kernel.get(refs, timeout=SECONDS) == expected
        killer.join(timeout=SECONDS)
        assert len(killer.killed) == KILLS and {*killer.killed} == {"worker", "template", "agent"}
        assert all(ledger.count(str(tmp_path), str(layer)) >= 1 for layer in range(1, LAYERS))
        del refs, adder
        assert wait_until_empty() == []

"""Ten thousand tasks that depend on each other, and actors, while thirty processes die: every result is right."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import numpy
import pytest

import kernel
from benchmarks.chaos import ledger
from benchmarks.chaos.soak import wait_until_empty
from kernel.runtime.current import get_runtime
from kernel.testing import Cluster
from kernel.testing.cluster import ClusterNode
from kernel.testing.faults import kill, template_of

LAYERS, WIDTH, KILLS = 50, 200, 30
SECONDS = 300.0
"""Of what may take so long beside much else, and with processes that die."""


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
        self.error: BaseException | None = None

    def keep_up(self, kills: int) -> None:
        """Have the job go on until there were so many kills: an idle node has nobody to be killed."""
        deadline = time.monotonic() + SECONDS
        while len(self.killed) < kills:
            assert self.error is None and time.monotonic() < deadline, f"only {len(self.killed)} kills: {self.error!r}"
            assert kernel.get([combine.remote(n) for n in range(WIDTH)], timeout=SECONDS) == [*range(WIDTH)]

    def run(self) -> None:
        try:
            while len(self.killed) < KILLS:
                time.sleep(self.dice.uniform(0, 0.2))
                self._kill_one()
        except BaseException as error:
            self.error = error  # for the test to say

    def _kill_one(self) -> None:
        kind = "agent" if len(self.killed) % 10 == 5 else "template" if len(self.killed) % 10 == 9 else "worker"
        node = self.dice.choice(self.cluster.nodes[1:])
        if kind == "agent":
            self.cluster.kill_agent(node)
            self.cluster.add_node(num_cpus=2)
        else:
            try:
                kill(template_of(node.agent) if kind == "template" else self.dice.choice(self._joined(node)))
            except (AssertionError, IndexError, ProcessLookupError):
                return  # there was none just then
        self.killed.append(kind)

    def _joined(self, node: ClusterNode) -> list[int]:
        """Return the workers of a node that have come up: of those that don't, three in a row are an error."""
        rows = get_runtime().query("workers")
        return [row["pid"] for row in rows if row["node_id"] == node.id and row["state"] != "starting" and row["pid"]]


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
            if layer % 5 == 0:
                killer.keep_up(KILLS * layer // LAYERS)
        assert kernel.get(refs, timeout=SECONDS) == expected
        killer.keep_up(KILLS)
        assert {*killer.killed} == {"worker", "template", "agent"}
        assert all(ledger.count(str(tmp_path), str(layer)) >= 1 for layer in range(1, LAYERS))
        del refs, adder
        assert wait_until_empty(SECONDS) == []

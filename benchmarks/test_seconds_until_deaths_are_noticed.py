"""How soon the death of a process is noticed: within 0.2 s, on whatever node, as docs/faults.md promises.

That they are noticed at all, whatever a machine is busy with, is in `tests/e2e/test_deaths_noticed.py`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import kernel
from benchmarks.victims import Victim, note_and_wait
from kernel import exceptions
from kernel.testing import Cluster
from kernel.testing.faults import kill, wait_until

NOTICED_SECONDS = 0.2
TIMES = 7
SECONDS = 120.0


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Cluster]:
    """Nodes a, b and c."""
    kernel.shutdown()
    with Cluster(num_cpus=1, resources={"a": 1}) as cluster:
        for name in "bc":
            cluster.add_node(num_cpus=1, resources={name: 1})
        cluster.connect()
        yield cluster


def seconds_until_it_raises(error: type[Exception], pid: int, ref: kernel.ObjectRef) -> float:
    kill(pid)
    killed = time.monotonic()
    with pytest.raises(error):
        kernel.get(ref, timeout=SECONDS)
    return time.monotonic() - killed


@pytest.mark.parametrize("place", ["a", "b"], ids=["on this node", "on another node"])
def test_the_death_of_a_worker_is_noticed_at_once(place: str, tmp_path: Path) -> None:
    there = {"resources": {place: 0.01}}
    tasks, actors = [], []
    for number in range(TIMES):
        path = tmp_path / str(number)
        ref = note_and_wait.options(**there).remote(str(path))
        wait_until(path.exists, SECONDS, "the task to begin")
        tasks.append(seconds_until_it_raises(exceptions.WorkerDiedError, int(path.read_text()), ref))
        actor = Victim.options(**there).remote()
        pid = kernel.get(actor.pid.remote(), timeout=SECONDS)
        actors.append(seconds_until_it_raises(exceptions.ActorDiedError, pid, actor.wait.remote()))
    assert statistics.median(tasks) < NOTICED_SECONDS, tasks
    assert statistics.median(actors) < NOTICED_SECONDS, actors


def test_the_death_of_an_owner_that_had_called_us_is_noticed_at_once() -> None:
    times = []
    for _ in range(TIMES):
        keeper = Victim.options(resources={"b": 0.01}).remote()
        owner = Victim.options(resources={"c": 0.01}).remote()
        pid = kernel.get(owner.hand_to.remote(keeper))
        kill(pid)
        killed = time.monotonic()
        with pytest.raises(exceptions.OwnerDiedError):
            kernel.get(keeper.read.remote(), timeout=SECONDS)
        times.append(time.monotonic() - killed)
    assert statistics.median(times) < NOTICED_SECONDS, times

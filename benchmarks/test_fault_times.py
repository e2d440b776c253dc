"""How soon the death of a process is noticed: within 0.2 s, on whatever node, as docs/faults.md promises."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kernel
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


@kernel.remote(num_cpus=0)
class Holder:
    """Says who it is, waits, has an object, hands it on, and reads one."""

    def pid(self) -> int:
        return os.getpid()

    def wait(self) -> None:
        time.sleep(600)

    def hand_to(self, other: Any) -> int:
        self.ref = kernel.put([1])
        kernel.get(other.keep.remote([self.ref]))
        return os.getpid()

    def keep(self, refs: list[kernel.ObjectRef]) -> None:
        self.refs = refs

    def read(self) -> Any:
        return kernel.get(self.refs[0])


@kernel.remote(num_cpus=0, max_retries=0)
def note_and_wait(path: str) -> None:
    with open(path + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(path + ".new", path)
    time.sleep(600)


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
        actor = Holder.options(**there).remote()
        pid = kernel.get(actor.pid.remote(), timeout=SECONDS)
        actors.append(seconds_until_it_raises(exceptions.ActorDiedError, pid, actor.wait.remote()))
    assert statistics.median(tasks) < NOTICED_SECONDS, tasks
    assert statistics.median(actors) < NOTICED_SECONDS, actors


def test_the_death_of_an_owner_that_had_called_us_is_noticed_at_once() -> None:
    times = []
    for _ in range(TIMES):
        keeper = Holder.options(resources={"b": 0.01}).remote()
        owner = Holder.options(resources={"c": 0.01}).remote()
        pid = kernel.get(owner.hand_to.remote(keeper))
        kill(pid)
        killed = time.monotonic()
        with pytest.raises(exceptions.OwnerDiedError):
            kernel.get(keeper.read.remote(), timeout=SECONDS)
        times.append(time.monotonic() - killed)
    assert statistics.median(times) < NOTICED_SECONDS, times

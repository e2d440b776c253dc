"""Every kind of fault, one after another, under load: what comes out is right or a documented error, and nothing stays.

The load is that of `python -m benchmarks.chaos`, on a cluster of a head and three nodes: tasks that depend on each
other, large values, actors whose calls are counted, streams, references in actors' state, and a ledger of what ran.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import kernel
from benchmarks.chaos.disturbances import Disturbances
from benchmarks.chaos.soak import Worker, wait_until_empty
from benchmarks.outcome import Outcome
from kernel import exceptions
from kernel.testing.clocks import jumping_clock
from kernel.testing.cluster import Cluster
from kernel.testing.disks import SmallDisk, why_not
from kernel.testing.faults import paused, wait_until

DEATH_SECONDS = 3.0
"""After which a node is dead that is silent: a busy machine is not to make one dead, above all not the program's."""
MOMENT_SECONDS = 1.2
"""After which the moments are chosen for which a node is disturbed and must not be dead."""
STORE_BYTES = 64 << 20
SECONDS = 120.0


class Load:
    """Work in two threads, until `stop`."""

    def __init__(self, folder: str) -> None:
        self.outcome = Outcome()
        self._end = time.monotonic() + 1000
        self._workers = [Worker(self.outcome, folder, seed, self._end) for seed in range(2)]
        for worker in self._workers:
            worker.start()

    def check(self, more: int = 40) -> None:
        """Return when `more` results were right. Fails on anything that was not."""
        expected = self.outcome.right.total() + more
        wait_until(lambda: self.outcome.wrong or self.outcome.right.total() >= expected, SECONDS, "right results")
        assert not self.outcome.wrong

    def stop(self) -> None:
        """End, after what is going on."""
        for worker in self._workers:
            worker.end = 0.0
        for worker in self._workers:
            worker.join()
        self._workers.clear()


@pytest.fixture(scope="module")
def disturbances(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disturbances]:
    """A cluster with everything that can be disturbed."""
    kernel.shutdown()
    with pytest.MonkeyPatch.context() as patch, jumping_clock() as clock, Cluster(
        num_cpus=1, death_seconds=DEATH_SECONDS, head_apart=True, faulty_network=True,
        plugins={"metadata_store": "sqlite"},
    ) as cluster:  # fmt: skip
        patch.setattr("benchmarks.outcome.HANG_SECONDS", 2 * SECONDS)
        disk = None if why_not() else SmallDisk(64 << 20).__enter__()
        try:
            if disk is not None:
                cluster.add_node(object_store_memory=STORE_BYTES // 2, root=disk.path, labels={"disk": "small"})
            cluster.connect(log_to_driver=False, logging_level="ERROR")
            found = Disturbances(cluster, Outcome(), random.Random(1), clock, disk)
            found.death_seconds = MOMENT_SECONDS
            found.patience = found.tolerance = SECONDS
            for _ in range(2 if disk is not None else 3):
                found.add_node()
            yield found
        finally:
            cluster.shutdown()
            if disk is not None:
                disk.__exit__(None, None, None)


@pytest.fixture(scope="module")
def load(disturbances: Disturbances, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    """Work on it."""
    load = Load(str(tmp_path_factory.mktemp("ledger")))
    disturbances.outcome = load.outcome
    yield load
    load.stop()


ELSEWHERE = {"worker killed", "template killed", "agent killed"}
"""In test_chaos_job.py."""
KINDS = [
    "worker paused", "worker slowed", "node killed", "node stopped", "node paused",
    "node paused until it was given up", "node slowed", "node cut off", "node cut off, with losses",
    "node cut off until it was given up", "one way cut", "one way cut until a node was given up", "connections reset",
    "network slowed", "head killed", "head killed twice", "head and node killed", "program killed", "clock set",
    "disk filled",
]  # fmt: skip


def test_every_kind_is_tried(disturbances: Disturbances) -> None:
    assert {*KINDS, *ELSEWHERE} == {*disturbances.kinds(), "disk filled"}


@pytest.mark.parametrize("kind", KINDS)
def test_work_is_right_whatever_fails(disturbances: Disturbances, load: Load, kind: str) -> None:
    if kind == "disk filled" and (reason := why_not()):
        pytest.skip(f"not tried on a full disk: {reason}")
    load.check(10)
    disturbances.kinds()[kind]()
    load.check()


@kernel.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class Hog:
    """Holds more than it may."""

    def hold(self, megabytes: int) -> int:
        """Hold so much for a while."""
        kept = bytearray(b"x") * (megabytes << 20)
        time.sleep(600)
        return len(kept)


def test_memory_that_runs_out_ends_who_has_too_much_and_nobody_else(load: Load) -> None:
    hog = Hog.options(memory=40 << 20, max_restarts=0).remote()
    with pytest.raises(exceptions.ActorOutOfMemoryError, match="more than its memory quota"):
        kernel.get(hog.hold.remote(150), timeout=SECONDS)
    load.check()


@kernel.remote(num_cpus=0, max_restarts=1, max_task_retries=-1)
class Noted:
    """Notes each call in a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def pid(self) -> int:
        """Return its process."""
        import os

        return os.getpid()

    def note(self) -> int:
        """Note a call, and return how many there were."""
        import os

        with open(self.path, "a") as file:
            file.write(f"{os.getpid()}\n")
        return len(Path(self.path).read_text().splitlines())


def test_an_actor_that_stood_still_when_it_was_ended_does_nothing_when_it_wakes(load: Load, tmp_path: Path) -> None:
    actor = Noted.remote(str(tmp_path / "calls"))
    pid = kernel.get(actor.pid.remote(), timeout=SECONDS)
    assert kernel.get(actor.note.remote(), timeout=SECONDS) == 1
    with paused(pid):
        call = actor.note.remote()
        kernel.kill(actor, no_restart=False)
        assert kernel.get(call, timeout=SECONDS) == 2
    assert kernel.get(actor.note.remote(), timeout=SECONDS) == 3
    pids = (tmp_path / "calls").read_text().split()
    assert pids[0] == str(pid) and pids.count(str(pid)) == 1
    load.check()


def test_nothing_is_left_when_the_work_is_done(load: Load, disturbances: Disturbances) -> None:
    load.stop()
    assert not load.outcome.wrong
    assert wait_until_empty(SECONDS) == []

"""Disks that are really full: that of the head's metadata, and that of a node's logs, sockets and spilled objects."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import kernel
from kernel import exceptions
from kernel.testing import Cluster
from kernel.testing.cluster import HEAD
from kernel.testing.disks import SmallDisk, why_not
from kernel.testing.faults import kill, title_of, wait_until
from kernel_processes.system.processes import children_of

MB = 1 << 20
SECONDS = 120.0
PATIENT = {"plugins": {"metadata_store": "sqlite"}, "death_seconds": 30.0}
"""Settings with which a head can die, and no node is dead that only has no CPU for some seconds."""


def on_a_small_disk(size: int) -> Callable[[Callable[[SmallDisk], None]], Callable[[], None]]:
    """Give a test a disk of that size; where there can be none, skip it and say why."""

    def decorate(test: Callable[[SmallDisk], None]) -> Callable[[], None]:
        @functools.wraps(test)
        def run() -> None:
            if reason := why_not():
                pytest.skip(f"not tried on a full disk: {reason}")
            kernel.shutdown()
            with SmallDisk(size) as disk:
                test(disk)

        del run.__wrapped__  # type: ignore[attr-defined]  # its argument is no fixture
        return run

    return decorate


@kernel.remote(num_cpus=0, resources={"there": 1})
class Counter:
    def __init__(self) -> None:
        self.count = 0

    def up(self) -> int:
        self.count += 1
        return self.count


@kernel.remote(num_cpus=0, resources={"there": 1})
def speak(value: Any, lines: int = 1) -> Any:
    for _ in range(lines):
        print("x" * 1000)
        print("y" * 1000, file=sys.stderr)
    return value


@kernel.remote(num_cpus=0, resources={"there": 1}, max_retries=0)
def fill(value: int, size: int) -> numpy.ndarray:
    return numpy.full(size, value, numpy.uint8)


@on_a_small_disk(2 * MB)
def test_a_head_that_can_write_nothing_down_goes_on_and_catches_up(disk: SmallDisk) -> None:
    with Cluster(num_cpus=1, head_apart=True, **PATIENT, metadata_directory=disk.path) as cluster:
        cluster.add_node(num_cpus=1, resources={"there": 10})
        cluster.connect(namespace="tests")
        before = Counter.options(name="before", lifetime="detached").remote()
        assert kernel.get(before.up.remote(), timeout=SECONDS) == 1
        disk.fill()
        meanwhile = Counter.options(name="meanwhile", lifetime="detached").remote()
        plain = Counter.remote()
        assert kernel.get([actor.up.remote() for actor in (before, meanwhile, plain)], timeout=SECONDS) == [2, 1, 1]
        cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes(3)
        log = lambda: cluster.head.log("head.log")
        wait_until(lambda: "can't write its metadata" in log(), SECONDS, "a line in the log")
        disk.free()
        wait_until(lambda: "metadata can be written again" in log(), SECONDS, "the end of the backlog")
        assert log().count("can't write its metadata") == 1, "a full disk is no reason to fill another with logs"
        cluster.kill_head()
        again = [kernel.get_actor(name).up.remote() for name in ("before", "meanwhile")]
        assert kernel.get([*again, plain.up.remote()], timeout=SECONDS) == [3, 2, 2]
        cluster.wait_for_nodes(3, SECONDS)
        for name in ("before", "meanwhile"):
            kernel.kill(kernel.get_actor(name))


@on_a_small_disk(2 * MB)
def test_a_head_that_dies_while_its_disk_is_full_is_back_when_there_is_room(disk: SmallDisk) -> None:
    with Cluster(num_cpus=1, head_apart=True, **PATIENT, metadata_directory=disk.path) as cluster:
        cluster.add_node(num_cpus=1, resources={"there": 10})
        cluster.connect(namespace="tests")
        counter = Counter.options(name="counter").remote()
        assert kernel.get(counter.up.remote(), timeout=SECONDS) == 1
        disk.fill()
        cluster.kill_head()
        reason = "can't start before its metadata store works"
        wait_until(lambda: reason in cluster.head.log(), SECONDS, "a head that finds the disk full")
        assert "full" in cluster.head.log()
        assert kernel.get(counter.up.remote(), timeout=SECONDS) == 2, "what needs no head goes on"
        tried: set[int] = set()

        def four_tries() -> bool:
            tried.update(pid for pid in children_of(cluster.head.agent) if title_of(pid) == HEAD)
            return len(tried) >= 4

        wait_until(four_tries, SECONDS, "more tries than a head that crashes is given")
        disk.free()
        assert kernel.get(kernel.get_actor("counter").up.remote(), timeout=SECONDS) == 3
        assert kernel.get(speak.remote("again"), timeout=SECONDS) == "again"
        assert cluster.head.log().count(reason) == 1, "it says so once"


@on_a_small_disk(2 * MB)
def test_a_session_whose_head_can_not_write_for_too_long_ends_and_says_why(disk: SmallDisk) -> None:
    settings = {**PATIENT, "metadata_directory": disk.path, "head_away_seconds": 1.0}
    with Cluster(num_cpus=1, head_apart=True, **settings) as cluster:
        cluster.connect()
        disk.fill()
        cluster.kill_head()
        with pytest.raises(exceptions.SessionEndedError, match="no other could be started: .* full"):
            kernel.get(speak.remote("never"), timeout=SECONDS)


@on_a_small_disk(48 * MB)
def test_a_node_whose_disk_is_full_works_on_with_what_is_in_memory(disk: SmallDisk) -> None:
    with Cluster(num_cpus=1) as cluster:
        node = cluster.add_node(num_cpus=1, resources={"there": 10}, object_store_memory=32 * MB, root=disk.path)
        cluster.connect(log_to_driver=False)
        counter = Counter.remote()
        assert kernel.get(counter.up.remote(), timeout=SECONDS) == 1
        spilled = [fill.remote(number, 4 * MB) for number in range(12)]
        kernel.wait(spilled, num_returns=12, timeout=SECONDS)
        disk.fill()
        assert kernel.get([speak.remote(number, 100) for number in range(10)], timeout=SECONDS) == list(range(10))
        assert kernel.get(counter.up.remote(), timeout=SECONDS) == 2
        for worker in node.workers()[1:]:
            kill(worker)
        assert kernel.get([speak.remote(number) for number in range(10)], timeout=SECONDS) == list(range(10))
        failed = 0
        for ref in [fill.remote(number, 4 * MB) for number in range(2)]:
            try:
                kernel.get(ref, timeout=SECONDS)
            except (exceptions.OutOfDiskError, exceptions.ObjectStoreFullError, exceptions.SpillError) as error:
                failed += 1
                assert "disk" in str(error) or "space" in str(error), error
        assert failed, "there was no room for all of them"
        disk.free()
        assert [int(kernel.get(ref, timeout=SECONDS)[-1]) for ref in spilled] == list(range(12))
        assert int(kernel.get(fill.remote(7, 4 * MB), timeout=SECONDS)[0]) == 7
        spilled.clear()

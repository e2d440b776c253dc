"""What an autoscaler sees of a real cluster: what waits, how much is behind it, and which nodes are in use."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Any

import numpy
import pytest

import kernel
from kernel.api.session import get_runtime
from kernel.testing.faults import wait_until

SECONDS = 30


def demand() -> dict[str, Any]:
    found: dict[str, Any] = get_runtime().query("demand")
    return found


def test_thousands_of_tasks_are_seen_although_few_leases_are_requested(tmp_path: Path) -> None:
    go = tmp_path / "go"

    @kernel.remote
    def wait(path: str) -> int:
        while not os.path.exists(path):
            time.sleep(0.01)
        return 1

    with kernel.init(num_cpus=1, log_to_driver=False):
        refs = [wait.remote(str(go)) for _ in range(3000)]

        def waiting() -> int:
            return sum(row["requests"] + row["backlog"] for row in demand()["shapes"])

        wait_until(lambda: waiting() > 2900, SECONDS, "the head to know of the tasks")
        (row,) = demand()["shapes"]
        assert row["requests"] <= 16 and row["wanted"] == {"CPU": 1.0} and row["names"][0].endswith("wait")
        assert row["backlog_seconds"] == math.inf, "none of them has ended yet"
        go.touch()
        assert sum(kernel.get(refs, timeout=SECONDS)) == 3000
        wait_until(lambda: demand()["shapes"] == [], SECONDS, "the requests to be withdrawn")


def test_what_was_cancelled_is_not_needed_any_more() -> None:
    def needed() -> int:
        return sum(row["requests"] + row["backlog"] for row in demand()["shapes"])

    with kernel.init(num_cpus=1, log_to_driver=False):
        large = kernel.remote(num_cpus=1000)(lambda: None)
        refs = [large.remote() for _ in range(40)]
        wait_until(lambda: needed() == 40, SECONDS, "the head to know of the tasks")
        for ref in refs[3:]:
            kernel.cancel(ref)
        wait_until(lambda: needed() == 3, SECONDS, "the requests of the others to be withdrawn")
        for ref in refs[:3]:
            kernel.cancel(ref)
        wait_until(lambda: demand()["shapes"] == [], SECONDS, "the last requests to be withdrawn")


@pytest.mark.usefixtures("cluster", "nothing_left")
def test_a_node_with_an_object_that_a_program_elsewhere_needs_is_in_use() -> None:
    @kernel.remote(num_cpus=0, resources={"b": 0.01})
    def make() -> numpy.ndarray[Any, Any]:
        return numpy.ones(200_000)

    def idle() -> bool:
        (row,) = [row for row in demand()["nodes"] if row["total"].get("b")]
        return row["idle_seconds"] is not None

    wait_until(idle, SECONDS, "the node to be idle before anything runs there")
    ref = make.remote()
    kernel.wait([ref], timeout=SECONDS)
    wait_until(lambda: not get_runtime().query("status")["waiting_count"] and not leased(), SECONDS, "the lease's end")
    assert not idle()
    del ref
    wait_until(idle, SECONDS, "the node to be idle again")


def leased() -> bool:
    """Return whether any resource of a node is taken."""
    return any(row["available"] != row["total"] for row in demand()["nodes"])

"""How often things run when nodes die: exactly as `max_retries`, `max_restarts` and `max_task_retries` say."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kernel
from benchmarks.chaos import ledger
from kernel import exceptions
from kernel.testing import Cluster, ClusterNode
from kernel.testing.faults import wait_until

SECONDS = 120.0
THERE: dict[str, Any] = {"resources": {"there": 1}, "num_cpus": 0}


class Nodes:
    """One node at a time, which has the resource "there"."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._node = self._add()

    def _add(self) -> ClusterNode:
        return self._cluster.add_node(num_cpus=1, resources={"there": 10})

    def replace(self) -> None:
        """Pull the plug of the node, and start another."""
        self._cluster.kill_node(self._node)
        self._node = self._add()


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """A head, and the nodes that die."""
    kernel.shutdown()
    with Cluster(num_cpus=1) as cluster:
        cluster.connect(log_to_driver=False)
        yield Nodes(cluster)


@kernel.remote(**THERE)
def run(folder: str) -> int:
    """Note that it runs, and wait for a file `go`."""
    ledger.note(folder, "runs")
    wait_until(Path(folder, "go").exists, SECONDS, "the word to go")
    return kernel.get_runtime_context().get_attempt_number()


class NotYet(Exception):
    pass


@kernel.remote(**THERE)
class Actor:
    """Notes each construction and each call."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        ledger.note(folder, "lives")

    def call(self) -> int:
        ledger.note(self.folder, "calls")
        wait_until(Path(self.folder, "go").exists, SECONDS, "the word to go")
        return os.getpid()

    def quick(self) -> int:
        ledger.note(self.folder, "quick")
        return ledger.count(self.folder, "lives")

    def raises(self, times: int) -> int:
        ledger.note(self.folder, "raises")
        if ledger.count(self.folder, "raises") <= times:
            raise NotYet
        return ledger.count(self.folder, "raises")


def wait_for(folder: Path, key: str, times: int) -> None:
    wait_until(lambda: ledger.count(str(folder), key) == times, SECONDS, f"{key} to be {times}")


@pytest.mark.parametrize("retries", [0, 1])
def test_a_task_runs_once_and_max_retries_times_more(nodes: Nodes, retries: int, tmp_path: Path) -> None:
    ref = run.options(max_retries=retries).remote(str(tmp_path))
    for number in range(1, retries + 2):
        wait_for(tmp_path, "runs", number)
        nodes.replace()
    with pytest.raises(exceptions.WorkerDiedError):
        kernel.get(ref, timeout=SECONDS)
    assert ledger.count(str(tmp_path), "runs") == retries + 1


def test_the_last_of_its_runs_counts(nodes: Nodes, tmp_path: Path) -> None:
    ref = run.options(max_retries=1).remote(str(tmp_path))
    wait_for(tmp_path, "runs", 1)
    nodes.replace()
    wait_for(tmp_path, "runs", 2)
    (tmp_path / "go").touch()
    assert kernel.get(ref, timeout=SECONDS) == 1, "the number of the attempt"
    assert ledger.count(str(tmp_path), "runs") == 2


@pytest.mark.parametrize(("wanted", "runs"), [(False, 1), ([NotYet], 3), ([KeyError], 1)])
def test_exceptions_are_retried_as_asked(nodes: Nodes, wanted: Any, runs: int, tmp_path: Path) -> None:
    @kernel.remote(max_retries=2, retry_exceptions=wanted, **THERE)
    def fail(folder: str) -> None:
        ledger.note(folder, "runs")
        raise NotYet

    with pytest.raises(NotYet):
        kernel.get(fail.remote(str(tmp_path)), timeout=SECONDS)
    assert ledger.count(str(tmp_path), "runs") == runs


def test_exceptions_and_deaths_use_up_the_same_retries(nodes: Nodes, tmp_path: Path) -> None:
    @kernel.remote(max_retries=1, retry_exceptions=True, **THERE)
    def fail_then_wait(folder: str) -> int:
        ledger.note(folder, "runs")
        if ledger.count(folder, "runs") == 1:
            raise NotYet
        wait_until(Path(folder, "go").exists, SECONDS, "the word to go")
        return ledger.count(folder, "runs")

    ref = fail_then_wait.remote(str(tmp_path))
    wait_for(tmp_path, "runs", 2)
    nodes.replace()
    with pytest.raises(exceptions.WorkerDiedError):
        kernel.get(ref, timeout=SECONDS)
    assert ledger.count(str(tmp_path), "runs") == 2


@pytest.mark.parametrize("restarts", [1])
def test_an_actor_is_constructed_once_and_max_restarts_times_more(nodes: Nodes, restarts: int, tmp_path: Path) -> None:
    actor = Actor.options(max_restarts=restarts).remote(str(tmp_path))
    for life in range(1, restarts + 2):
        wait_for(tmp_path, "lives", life)
        wait_until(lambda: quick(actor) == life, SECONDS, "an answer")  # noqa: B023
        nodes.replace()
    with pytest.raises(exceptions.ActorDiedError):
        kernel.get(actor.quick.options(max_task_retries=5).remote(), timeout=SECONDS)
    assert ledger.count(str(tmp_path), "lives") == restarts + 1


def quick(actor: Any) -> int:
    """Return the actor's answer, or 0 while it restarts."""
    try:
        return int(kernel.get(actor.quick.remote(), timeout=SECONDS))
    except exceptions.ActorUnavailableError:
        return 0


@pytest.mark.parametrize("retries", [1])
def test_a_call_runs_once_and_max_task_retries_times_more(nodes: Nodes, retries: int, tmp_path: Path) -> None:
    actor = Actor.options(max_restarts=-1, max_task_retries=retries).remote(str(tmp_path))
    call = actor.call.remote()
    for number in range(1, retries + 2):
        wait_for(tmp_path, "calls", number)
        nodes.replace()
    with pytest.raises(exceptions.ActorUnavailableError, match="may or may not have run"):
        kernel.get(call, timeout=SECONDS)
    assert ledger.count(str(tmp_path), "calls") == retries + 1


def test_exceptions_of_methods_are_retried_as_asked(nodes: Nodes, tmp_path: Path) -> None:
    actor = Actor.options(max_restarts=0, max_task_retries=2).remote(str(tmp_path))
    with pytest.raises(NotYet):
        kernel.get(actor.raises.remote(10), timeout=SECONDS)
    assert ledger.count(str(tmp_path), "raises") == 1
    again = actor.raises.options(retry_exceptions=[NotYet], max_task_retries=2)
    assert kernel.get(again.remote(3), timeout=SECONDS) == 4
    assert ledger.count(str(tmp_path), "lives") == 1


@pytest.mark.parametrize("retries", [0, 2])
def test_what_a_node_runs_that_was_given_up_and_wakes_up_counts_as_well(retries: int, tmp_path: Path) -> None:
    @kernel.remote(max_retries=retries, **THERE)
    def brief(folder: str, key: str) -> str:
        ledger.note(folder, key)
        time.sleep(0.003)
        return key

    kernel.shutdown()
    with Cluster(num_cpus=1, death_seconds=5.0) as cluster:
        node = cluster.add_node(num_cpus=1, resources={"there": 1})
        cluster.connect(log_to_driver=False)
        kernel.get([brief.remote(str(tmp_path), f"first{number}") for number in range(200)], timeout=SECONDS)
        keys = [str(number) for number in range(1000)]
        refs = [brief.remote(str(tmp_path), key) for key in keys]
        kernel.wait(refs, num_returns=20, timeout=SECONDS)
        with cluster.paused(node):
            wait_until(lambda: sum(row["Alive"] for row in kernel.nodes()) == 1, SECONDS, "the node to be given up")
            cluster.add_node(num_cpus=1, resources={"there": 1})
            kernel.wait(refs, num_returns=30, timeout=SECONDS)
        node.process.wait(SECONDS)
        cluster.remove_node(node)
        for key, ref in zip(keys, refs, strict=True):
            try:
                assert kernel.get(ref, timeout=SECONDS) == key
            except exceptions.WorkerDiedError:
                assert retries == 0
        assert max(ledger.count(str(tmp_path), key) for key in keys) <= retries + 1

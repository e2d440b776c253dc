"""How a death is noticed: of a process by its end, of a machine that only falls silent by the time that was set.

How soon that is, `benchmarks/test_seconds_until_deaths_are_noticed.py` measures.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import kernel
from benchmarks.victims import Victim, note_and_wait
from kernel import exceptions
from kernel.testing import Cluster
from kernel.testing.faults import kill, paused, wait_until

SECONDS = 120.0
DEATH_SECONDS = 2.0


@pytest.fixture(scope="module")
def patient() -> Iterator[Cluster]:
    """Nodes a, b and c, whose silence says nothing for ten minutes."""
    kernel.shutdown()
    with Cluster(num_cpus=1, resources={"a": 1}, death_seconds=600.0) as cluster:
        for name in "bc":
            cluster.add_node(num_cpus=1, resources={name: 1})
        cluster.connect()
        yield cluster


@pytest.mark.parametrize("place", ["a", "b"], ids=["on this node", "on another node"])
def test_the_death_of_a_worker_is_noticed_long_before_any_silence(patient: Cluster, place: str, tmp_path: Path) -> None:
    there = {"resources": {place: 0.01}}
    path = tmp_path / "pid"
    ref = note_and_wait.options(**there).remote(str(path))
    wait_until(path.exists, SECONDS, "the task to begin")
    kill(int(path.read_text()))
    with pytest.raises(exceptions.WorkerDiedError):
        kernel.get(ref, timeout=SECONDS)
    actor = Victim.options(**there).remote()
    pid = kernel.get(actor.pid.remote(), timeout=SECONDS)
    call = actor.wait.remote()
    kill(pid)
    with pytest.raises(exceptions.ActorDiedError):
        kernel.get(call, timeout=SECONDS)


def test_the_death_of_an_owner_that_had_called_us_is_noticed_long_before_any_silence(patient: Cluster) -> None:
    keeper = Victim.options(resources={"b": 0.01}).remote()
    owner = Victim.options(resources={"c": 0.01}).remote()
    kill(kernel.get(owner.hand_to.remote(keeper), timeout=SECONDS))
    with pytest.raises(exceptions.OwnerDiedError):
        kernel.get(keeper.read.remote(), timeout=SECONDS)


def test_the_death_of_an_agent_is_noticed_by_all_others_long_before_its_silence() -> None:
    kernel.shutdown()
    with Cluster(num_cpus=1, death_seconds=600.0) as cluster:
        cluster.connect()
        for _ in range(2):
            node = cluster.add_node(num_cpus=1, resources={"there": 1})
            actor = Victim.options(resources={"there": 1}).remote()
            kernel.get(actor.pid.remote(), timeout=SECONDS)
            call = actor.wait.remote()
            cluster.kill_node(node)
            with pytest.raises(exceptions.ActorDiedError):
                kernel.get(call, timeout=SECONDS)


def test_the_death_of_an_agent_that_had_something_to_read_is_noticed_as_soon() -> None:
    """Its sockets are reset, which is what a network does that fails."""
    kernel.shutdown()
    with Cluster(num_cpus=1, death_seconds=600.0) as cluster:
        cluster.connect()
        node = cluster.add_node(num_cpus=1, resources={"there": 1})
        actor = Victim.options(resources={"there": 1}).remote()
        kernel.get(actor.pid.remote(), timeout=SECONDS)
        call = actor.wait.remote()
        with paused(node.agent):
            wait_until(lambda: _has_something_to_read(node.agent), SECONDS, "a heartbeat of the head that nobody reads")
            kill(node.agent)
        with pytest.raises(exceptions.ActorDiedError):
            kernel.get(call, timeout=SECONDS)


def _has_something_to_read(pid: int) -> bool:
    """Return whether bytes wait in a TCP socket of a process."""
    links = (Path(f"/proc/{pid}/fd") / name for name in os.listdir(f"/proc/{pid}/fd"))
    sockets = {os.readlink(link) for link in links}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(int(row[4].split(":")[1], 16) > 0 and f"socket:[{row[9]}]" in sockets for row in rows)


@pytest.mark.parametrize("way", ["both ways", "from the node", "to the node"])
def test_a_machine_that_falls_silent_is_given_up_when_the_time_is_over_that_was_set(way: str) -> None:
    """That it is no later is in test_membership.py, by a clock that no busy machine holds up."""
    kernel.shutdown()
    with Cluster(num_cpus=1, death_seconds=DEATH_SECONDS, faulty_network=True) as cluster:
        node = cluster.add_node(num_cpus=1)
        cluster.connect()
        wait_until(lambda: len(kernel.nodes()) == 2, SECONDS, "the node's beginning")
        if way == "both ways":
            cluster.partition(node, lose=True)
        elif way == "from the node":
            cluster.cut(node, cluster.head)
        else:
            cluster.cut(cluster.head, node)
        wait_until(lambda: sum(row["Alive"] for row in kernel.nodes()) == 1, SECONDS, "the node's end")
        (row,) = [row for row in kernel.nodes() if not row["Alive"]]
        silence = re.fullmatch(r"no heartbeat from it for ([\d.]+) s", row["Cause"])
        assert silence is not None and float(silence[1]) >= DEATH_SECONDS - 0.1, row["Cause"]
        cluster.heal()
        node.process.wait(SECONDS)
        cluster.remove_node(node)


def test_a_head_that_stood_still_blames_nobody_for_it() -> None:
    kernel.shutdown()
    settings = {"plugins": {"metadata_store": "sqlite"}, "death_seconds": DEATH_SECONDS}
    with Cluster(num_cpus=1, head_apart=True, **settings) as cluster:
        cluster.add_node(num_cpus=1)
        cluster.connect()
        cluster.wait_for_nodes(2)
        with paused(cluster.head_process()):
            time.sleep(DEATH_SECONDS + 1.0)
        ends = time.monotonic() + 1.0
        while time.monotonic() < ends:
            assert [row["Alive"] for row in kernel.nodes()] == [True, True]
            time.sleep(0.1)

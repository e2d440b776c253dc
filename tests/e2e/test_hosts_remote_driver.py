"""A program on a host that reaches nothing but the head, and that nobody can dial: used, cut off, and left behind."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kernel.testing.faults import kill, title_of, wait_until
from kernel.testing.hosts import Host, on_hosts
from kernel_processes.cli import certificates
from kernel_processes.system.processes import descendants_of, is_alive

SECONDS = 120.0
GIVEN_UP = r"no heartbeat from it for (8\.9|9|\d\d)"
"""After three times the three seconds that are said there, or nearly, or later."""

START = """
import os, sys
import kernel, numpy

options = {"tls": sys.argv[3]} if len(sys.argv) > 3 else {}
kernel.init(sys.argv[1], token_file=sys.argv[2], namespace="tests", **options)
"""

USE = (
    START
    + """
from kernel_processes.runtime import process_runtime
process_runtime._OUTPUT_SECONDS = 120.0  # it would leave without what has not come after a moment

@kernel.remote(resources={"there": 1})
def far(array):
    return array + 1, os.getpid()

@kernel.remote(resources={"here": 1})
def beside(refs):
    array, pid = kernel.get(refs[0])
    return int(array.sum()), pid, os.getpid()

print("hello from the driver")
large = numpy.arange(12_500_000)  # 100 MB
put = kernel.put(large)
made = far.remote(put)
total, first, second = kernel.get(beside.remote([made]), timeout=120)
array, pid = kernel.get(made, timeout=120)
assert (array == large + 1).all() and total == int(array.sum())
assert pid == first != second
print(len(kernel.nodes()), "nodes")

@kernel.remote(resources={"there": 0.1})
def say():
    print("hello from a worker")

kernel.get(say.remote())
kernel.shutdown()
"""
)

COUNT = (
    START
    + """
@kernel.remote(num_cpus=0, resources={"there": 1})
class Counter:
    def __init__(self):
        self.count = 0

    def up(self):
        self.count += 1
        return self.count

    def pid(self):
        return os.getpid()

counter = Counter.remote()
kept = Counter.options(name="kept", lifetime="detached", get_if_exists=True, resources={"there": 0.1}).remote()
print(kernel.get(counter.pid.remote()), kernel.get(kept.pid.remote()), flush=True)
for line in sys.stdin:
    print(kernel.get(counter.up.remote(), timeout=120), flush=True)
    assert line == "\\n" or kernel.get(kernel.put(line)) == line
"""
)


class Cluster:
    """A head on the first host, a node on the second, and a third one that reaches only the head."""

    def __init__(self, hosts: Sequence[Host], directory: Path, *options: str, tls: bool = False) -> None:
        self.head, self.node, self.outside = hosts
        self.outside.reach_only(self.head)
        secured: tuple[str, ...] = ()
        if tls:
            certificates.create(directory / "tls")
            secured = ("--tls", str(directory / "tls"))
        room = ("--object-store-memory", "450MB")
        self.options = ("--node-ip-address", self.head.address, "--resources", '{"here": 1}', *room, *secured, *options)
        self.started = self.head.line.start(*self.options)
        self.place = self.started["address"]
        token = self.head.line.run("token").stdout.strip()
        there = ("--resources", '{"there": 4}', *room, *secured)
        self.joined = self.node.line.join(self.place, *there, KERNEL_TOKEN=token)
        self.token_file = directory / "token"
        self.token_file.touch(0o600)
        self.token_file.write_text(token)
        self.arguments = (f"kernel://{self.place}", str(self.token_file), *secured[1:])

    def program(self, text: str) -> subprocess.Popen[str]:
        """Start a program on the host outside."""
        return self.outside.line.program(text, *self.arguments)

    def status(self) -> dict[str, Any]:
        """Return what the head says."""
        found: dict[str, Any] = self.head.line.json("status")
        return found

    def log(self) -> str:
        """Return what the head has logged."""
        file = Path(self.started["directory"], "logs", "head.log")
        return file.read_text() if file.exists() else ""


class Counting:
    """A program outside whose actor counts on the node."""

    def __init__(self, cluster: Cluster) -> None:
        self.process = cluster.program(COUNT)
        self.actor, self.kept = map(int, self.line().split())

    def line(self) -> str:
        """Return the next line that it prints."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        return line

    def ask(self) -> None:
        """Let it count on; `answer` waits for what comes of it."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def up(self) -> int:
        """Count on."""
        self.ask()
        return int(self.line())


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@on_hosts(3)
def test_a_program_outside_uses_all_nodes_through_the_one_port_of_the_head(
    hosts: Sequence[Host], tmp_path: Path, tls: bool
) -> None:
    cluster = Cluster(hosts, tmp_path, tls=tls)
    with pytest.raises(subprocess.CalledProcessError):
        cluster.outside.run("ip", "route", "get", cluster.node.address)
    program = cluster.program(USE)
    wait_until(lambda: cluster.outside.listens_at() == [], SECONDS, "it listens nowhere")
    shown, errors = program.communicate(timeout=SECONDS)
    assert program.returncode == 0, errors
    assert shown.startswith("hello from the driver\n2 nodes\n"), errors
    assert "hello from a worker" in shown + errors
    wait_until(lambda: 'event="a remote driver is gone"' in cluster.log(), SECONDS, "a word of the head")


@on_hosts(3)
def test_it_goes_on_where_it_was_when_its_network_is_back(hosts: Sequence[Host], tmp_path: Path) -> None:
    cluster = Cluster(hosts, tmp_path)
    counting = Counting(cluster)
    assert counting.up() == 1
    for expected in (2, 3):
        cluster.outside.cut()
        counting.ask()
        with pytest.raises(subprocess.TimeoutExpired):
            counting.process.wait(3.0)
        cluster.outside.heal()
        assert int(counting.line()) == expected
    assert "a remote driver is gone" not in cluster.log()
    counting.process.communicate(timeout=SECONDS)


@on_hosts(3)
def test_one_that_stays_away_is_given_up_and_learns_so(hosts: Sequence[Host], tmp_path: Path) -> None:
    cluster = Cluster(hosts, tmp_path, "--node-death-seconds", "3")
    counting = Counting(cluster)
    assert counting.up() == 1
    cluster.outside.cut()
    wait_until(lambda: not is_alive(counting.actor), SECONDS, "the end of its actor")
    assert is_alive(counting.kept), "a detached actor lives on"
    assert re.search(GIVEN_UP, cluster.log())
    cluster.outside.heal()
    _, errors = counting.process.communicate("\n", timeout=SECONDS)
    assert re.search(f"this node was declared dead: {GIVEN_UP}", errors)
    agents = [pid for pid in descendants_of(counting.process.pid) if is_alive(pid)]
    assert agents == []


@on_hosts(3)
def test_a_head_that_is_started_again_is_found_again(hosts: Sequence[Host], tmp_path: Path) -> None:
    cluster = Cluster(hosts, tmp_path, "--metadata-path", str(tmp_path / "metadata"))
    counting = Counting(cluster)
    assert counting.up() == 1
    (process,) = [pid for pid in descendants_of(cluster.started["agent_pid"]) if title_of(pid) == "kernel: head"]
    kill(process)
    assert counting.up() == 2

    family = [cluster.started["agent_pid"], *descendants_of(cluster.started["agent_pid"])]
    for pid in family:
        kill(pid)
    wait_until(lambda: not any(map(is_alive, family)), SECONDS, "the end of the head's processes")
    again = cluster.head.line.start(*cluster.options)
    assert again["address"] == cluster.place
    assert counting.up() == 3, "the same actor, called once"
    other = Counting(cluster)
    assert (other.kept, other.up()) == (counting.kept, 1)
    for one in (counting, other):
        one.process.communicate(timeout=SECONDS)


@on_hosts(3)
def test_a_program_that_is_killed_leaves_nothing_behind(hosts: Sequence[Host], tmp_path: Path) -> None:
    cluster = Cluster(hosts, tmp_path)
    counting = Counting(cluster)
    (agent,) = [pid for pid in descendants_of(counting.process.pid) if title_of(pid) == "kernel: agent"]
    kill(counting.process.pid)
    counting.process.communicate()
    for gone in (counting.actor, agent):
        wait_until(lambda gone=gone: not is_alive(gone), SECONDS, "the end of what it had")
    wait_until(lambda: 'event="a remote driver is gone"' in cluster.log(), SECONDS, "a word of the head")
    assert is_alive(counting.kept)
    wait_until(lambda: cluster.status()["available"]["there"] == 3.9, SECONDS, "the end of its lease")
    (job,) = cluster.status()["jobs"]
    assert job["ended"]
    assert not any(os.listdir(Path(cluster.outside.line.root, f"kernel-{os.getuid()}")))

"""A cluster of separate hosts in TLS: used, cut for a moment, cut for so long that a node is given up."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kernel.testing.faults import wait_until
from kernel.testing.hosts import Host, on_hosts
from kernel_processes.cli import certificates
from kernel_processes.system.processes import is_alive

SECONDS = 120.0

COUNTER = """
import os, sys
import kernel

@kernel.remote(resources={"there": 1}, max_restarts=-1, max_task_retries=-1)
class Counter:
    def __init__(self):
        self.count = 0

    def up(self):
        self.count += 1
        return self.count, os.getpid(), kernel.get_runtime_context().get_node_id()

kernel.init(address="auto", log_to_driver=False)
counter = Counter.remote()
for line in sys.stdin:
    print(*kernel.get(counter.up.remote(), timeout=120), flush=True)
"""


PRINT_SILENCES = """
import json, sys
import kernel

kernel.init(address="auto", log_to_driver=False)
for line in sys.stdin:
    print(json.dumps({row["NodeID"]: row["HeardSecondsAgo"] for row in kernel.nodes()}), flush=True)
"""


class Cluster:
    """A head on the first host and a node on each other one, in TLS; who is silent for `death` seconds is dead."""

    def __init__(self, hosts: Sequence[Host], directory: Path, death: int = 30) -> None:
        certificates.create(directory / "tls", [host.address for host in hosts])
        self.tls = ("--tls", str(directory / "tls"))
        self.head = hosts[0]
        options = ("--node-ip-address", self.head.address, "--node-death-seconds", str(death))
        started = self.head.line.start(*options, *self.tls)
        self.place = started["address"]
        self.token = self.head.line.run("token").stdout.strip()
        self.nodes = {started["node_id"]: self.head}
        self.agents = {self.head: started["agent_pid"]}
        for host in hosts[1:]:
            self.add(host)

    def add(self, host: Host) -> str:
        """Start a node there, and return its id."""
        options = (*self.tls, "--resources", '{"there": 1}')
        joined = host.line.join(self.place, *options, KERNEL_TOKEN=self.token)
        self.nodes[joined["node_id"]] = host
        self.agents[host] = joined["agent_pid"]
        node: str = joined["node_id"]
        return node

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return what the head says of each node."""
        return {row["NodeID"]: row for row in self.head.line.json("status")["nodes"]}


class Heartbeats:
    """A program on the head's host that prints at once which nodes are silent; the command line may take seconds."""

    def __init__(self, host: Host) -> None:
        self.process: subprocess.Popen[str] = host.line.program(PRINT_SILENCES)

    def wait_until_silent(self, node: str, seconds: float) -> None:
        """Return when a node has answered no heartbeat for so many seconds."""
        wait_until(lambda: self._ask()[node] > seconds, SECONDS, f"{seconds} s of silence")

    def end(self) -> None:
        """End the program."""
        self.process.communicate(timeout=SECONDS)

    def _ask(self) -> dict[str, float]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        received: dict[str, float] = json.loads(line)
        return received


class Counting:
    """A program on a host with an actor that counts elsewhere."""

    def __init__(self, host: Host) -> None:
        self.process: subprocess.Popen[str] = host.line.program(COUNTER)

    def ask(self) -> None:
        """Let it count on; `answer` waits for what comes of it."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def answer(self) -> tuple[int, int, str]:
        """Return the count, and the process and the node that counted."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        count, pid, node = line.split()
        return int(count), int(pid), node

    def up(self) -> tuple[int, int, str]:
        """Count on."""
        self.ask()
        return self.answer()

    def end(self) -> None:
        """End the program."""
        self.process.communicate(timeout=SECONDS)


TRANSFER = """
import os, sys, time
import kernel, numpy

@kernel.remote(resources={"there": 0.1})
def make(size):
    return numpy.ones(size, dtype=numpy.uint8)

@kernel.remote(resources={"there": 0.1}, scheduling_strategy="SPREAD")
def add(meeting, *arrays):
    node = kernel.get_runtime_context().get_node_id()
    open(os.path.join(meeting, node), "w").close()
    while len(os.listdir(meeting)) < 2:  # else one node could do it all before the other begins
        time.sleep(0.01)
    return sum(int(array.sum()) for array in arrays), node

with kernel.init(address="auto", log_to_driver=False):
    arrays = [make.options(scheduling_strategy="SPREAD").remote(3_000_000) for _ in range(4)]
    sums = kernel.get([add.remote(sys.argv[1], *arrays) for _ in range(6)], timeout=120)
    assert {total for total, _ in sums} == {12_000_000}, sums
    print(*sorted({node for _, node in sums}))
"""


@on_hosts(3)
def test_programs_use_all_hosts_through_one_port_each(hosts: Sequence[Host], tmp_path: Path) -> None:
    cluster = Cluster(hosts, tmp_path)
    (tmp_path / "meeting").mkdir()
    program = hosts[1].line.program(TRANSFER, str(tmp_path / "meeting"))
    shown, errors = program.communicate(timeout=SECONDS)
    used = shown.split()
    assert len(used) == 2 and set(used) < set(cluster.nodes), errors
    for node, host in cluster.nodes.items():
        row = cluster.rows()[node]
        assert row["NodeManagerAddress"] == host.address
        assert host.listens_at() == [f"{host.address}:{row['NodeManagerPort']}"]


@on_hosts(2)
def test_a_head_is_for_its_own_host_alone_unless_told_otherwise(hosts: Sequence[Host]) -> None:
    head, other = hosts
    head.line.start()
    assert head.listens_at() == ["127.0.0.1:6380"]
    line = other.line.refused("start", "--address", f"{head.address}:6380", code=1, KERNEL_TOKEN="ab" * 32)
    assert "it can't be reached: Connection refused" in line and "unless it was started with --node-ip-address" in line


@on_hosts(2)
def test_a_host_that_is_cut_off_for_a_moment_goes_on_where_it_was(hosts: Sequence[Host], tmp_path: Path) -> None:
    cluster = Cluster(hosts, tmp_path, death=10)
    (node,) = [node for node, host in cluster.nodes.items() if host is hosts[1]]
    counting = Counting(hosts[0])
    first = counting.up()
    heartbeats = Heartbeats(hosts[0])
    heartbeats.wait_until_silent(node, 0.0)
    for expected in (2, 3):
        hosts[1].cut()
        counting.ask()
        heartbeats.wait_until_silent(node, 3.0)
        hosts[1].heal()
        assert counting.answer() == (expected, *first[1:])
    assert cluster.rows()[node]["State"] == "ALIVE"
    heartbeats.end()
    counting.end()


@on_hosts(3)
def test_a_host_that_is_cut_off_for_long_is_given_up_and_ends_when_it_hears_so(
    hosts: Sequence[Host], tmp_path: Path
) -> None:
    cluster = Cluster(hosts, tmp_path, death=5)
    counting = Counting(hosts[0])
    _, old, node = counting.up()
    lost = cluster.nodes[node]
    lost.cut()
    count, new, other = counting.up()
    assert (count, other != node, is_alive(old)) == (1, True, True), "it counts anew, on the host that is left"
    lost.heal()
    wait_until(lambda: not is_alive(old) and not is_alive(cluster.agents[lost]), SECONDS, "the end of the lost node")
    assert cluster.rows()[node]["State"] == "DEAD"
    line = lost.line.refused("status", code=1)
    assert "has ended: the head is gone: this node was declared dead: no heartbeat from it for" in line
    assert counting.up() == (2, new, other)
    again = cluster.add(lost)
    assert cluster.rows()[again]["State"] == "ALIVE"
    counting.end()


def test_where_there_can_be_no_hosts_a_test_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernel.testing.hosts.why_not", lambda: "nobody is root")

    @on_hosts(2)
    def never(hosts: Sequence[Host], more: int) -> None:
        raise AssertionError("it was called")

    with pytest.raises(pytest.skip.Exception, match="not tried on separate hosts: nobody is root"):
        never(more=1)

"""The head dies, alone and with its host, while an actor counts on another host: with SQLite and with a real Redis."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from kernel_metadata_redis.testing import RedisServer

from kernel.testing.faults import kill, title_of, wait_until
from kernel.testing.hosts import Host, on_hosts
from kernel.testing.programs import need
from kernel_processes.cli import certificates
from kernel_processes.system.processes import descendants_of, is_alive

SECONDS = 120.0

COUNTER = """
import sys
import kernel

@kernel.remote(resources={"there": 1})
class Counter:
    def __init__(self):
        self.count = 0

    def up(self):
        self.count += 1
        return self.count

kernel.init(address="auto", namespace="tests", log_to_driver=False)
counter = Counter.options(name="counter", lifetime="detached", get_if_exists=True).remote()
for line in sys.stdin:
    print(kernel.get(counter.up.remote(), timeout=120), flush=True)
"""


@pytest.fixture(params=["sqlite", "redis"])
def metadata(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str]]:
    """Options and environment of a head that keeps what it knows: one store after the other."""
    options = ["--metadata-path", str(tmp_path / "metadata")]
    if request.param == "sqlite":
        yield options
        return
    need("redis-server")
    server = RedisServer("--appendonly", "yes", "--appendfsync", "always")
    os.environ["KERNEL_OPTION_REDIS_URL"] = server.url
    yield [*options, "--metadata-store", "redis"]
    del os.environ["KERNEL_OPTION_REDIS_URL"]
    assert server.admin.keys() == [], "a cluster that was ended leaves nothing there"
    server.remove()


def count(program: subprocess.Popen[str]) -> int:
    assert program.stdin is not None and program.stdout is not None
    program.stdin.write("\n")
    program.stdin.flush()
    line = program.stdout.readline()
    assert line, program.communicate()[1]
    return int(line)


def power_cut(agent: int) -> None:
    """End an agent and all that it started, at once."""
    family = [agent, *descendants_of(agent)]
    for pid in family:
        os.kill(pid, signal.SIGSTOP)
    for pid in family:
        kill(pid)
    wait_until(lambda: not any(map(is_alive, family)), SECONDS, "the end of the host's processes")


@on_hosts(2)
def test_an_actor_counts_through_the_deaths_of_the_head_and_of_its_host(
    hosts: Sequence[Host], metadata: list[str], tmp_path: Path
) -> None:
    head, other = hosts
    certificates.create(tmp_path / "tls")
    options = ("--node-ip-address", head.address, "--tls", str(tmp_path / "tls"), *metadata)
    first = head.line.start(*options)
    assert first["metadata"]["durable"]
    token = head.line.run("token").stdout.strip()
    far = ("--tls", str(tmp_path / "tls"), "--resources", '{"there": 1}')
    joined = other.line.join(first["address"], *far, KERNEL_TOKEN=token)
    program = other.line.program(COUNTER)
    assert count(program) == 1

    (process,) = [pid for pid in descendants_of(first["agent_pid"]) if title_of(pid) == "kernel: head"]
    kill(process)
    assert count(program) == 2

    power_cut(first["agent_pid"])
    assert count(program) == 3, "calls to an actor need no head"
    second = head.line.start(*options)
    assert second["address"] == first["address"]
    assert count(program) == 4
    again = head.line.program(COUNTER)
    assert count(again) == 5, "the actor has its name still, and was not made anew"
    states = {first["node_id"]: "DEAD", joined["node_id"]: "ALIVE", second["node_id"]: "ALIVE"}
    wait_until(
        lambda: {row["NodeID"]: row["State"] for row in head.line.json("status")["nodes"]} == states,
        SECONDS,
        "the head's word that its first node is dead",
    )
    for one in (program, again):
        one.communicate(timeout=SECONDS)
    assert head.line.run("stop").returncode == 0
    wait_until(lambda: not is_alive(joined["agent_pid"]), SECONDS, "the end of the other node")

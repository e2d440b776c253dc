"""An autoscaler over hosts that SSH reaches: tasks bring nodes, idleness takes them back, a killed one is replaced."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel.testing.command_line import CommandLine
from kernel.testing.faults import wait_until
from kernel.testing.session import temporary_root
from plugins.provider_local.tests.ssh_hosts import SshHosts

SECONDS = 120.0
PROGRAM = """
import sys, time
import kernel

@kernel.remote(max_retries=-1)
def where(seconds):
    time.sleep(seconds)
    return kernel.get_runtime_context().get_node_id()

with kernel.init(address="auto", log_to_driver=False):
    for line in sys.stdin:
        count, seconds = line.split()
        nodes = kernel.get([where.remote(float(seconds)) for _ in range(int(count))], timeout=120)
        print(len(set(nodes)), flush=True)
"""


@pytest.fixture
def head(hosts: SshHosts, tmp_path: Path) -> Iterator[CommandLine]:
    kinds = {"two": {"hosts": [host.name for host in hosts.hosts], "resources": {"CPU": 2.0}, "price": 0.5}}
    options = hosts.options(leases_file=str(tmp_path / "leases"))
    lines = [f"{name} = {json.dumps(value)}" for name, value in options.items()]
    table = ", ".join(f"{name} = {json.dumps(value)}" for name, value in kinds["two"].items() if name != "resources")
    file = tmp_path / "autoscaler.toml"
    file.write_text(
        'provider = "local"\n[provider_options]\n' + "\n".join(lines) + "\n"
        f"[provider_options.kinds]\ntwo = {{{table}, resources = {{CPU = 2}}}}\n"
        "[settings]\nidle_seconds = 2\nmaximum_nodes = 2\n"
    )
    with temporary_root() as root:
        line = CommandLine(root)
        line.environment["KERNEL_OPTION_AUTOSCALER_CONFIG"] = str(file)
        line.start("--num-cpus", "0", "--port", "0", "--head-service", "autoscaler")
        yield line
        line.end()


def nodes(head: CommandLine) -> list[dict[str, str]]:
    rows = head.json("status")["nodes"]
    return [row for row in rows if row["Alive"] and "kernel/provider-id" in row["Labels"]]


def test_hosts_come_with_tasks_and_go_with_idleness_and_are_replaced_when_they_die(
    head: CommandLine, hosts: SshHosts, tmp_path: Path
) -> None:
    program = head.program(PROGRAM)
    assert program.stdin is not None and program.stdout is not None

    def run(count: int, seconds: float) -> None:
        assert program.stdin is not None
        program.stdin.write(f"{count} {seconds}\n")
        program.stdin.flush()

    def leases() -> list[dict[str, str]]:
        found: list[dict[str, str]] = json.loads((tmp_path / "leases").read_text())["leases"]
        return found

    def left() -> list[Path]:
        orders = json.loads((tmp_path / "leases").read_text())["orders"]
        ids = [id for order in orders.values() for id in order]
        assert ids
        return [place for place in (Path("/tmp") / f"k{id.removeprefix('local-')}" for id in ids) if place.exists()]

    run(8, 1.0)
    assert program.stdout.readline() == "2\n", "there may be two nodes"
    assert {lease["host"] for lease in leases()} == {host.name for host in hosts.hosts[:2]}
    wait_until(lambda: not nodes(head) and not leases(), SECONDS, "the idle nodes to leave and their hosts to be free")
    assert not left(), "a node leaves nothing behind"
    run(2, 5.0)
    wait_until(lambda: len(nodes(head)) == 1, SECONDS, "a node to come")
    (row,) = nodes(head)
    os.kill(int(row["AgentPid"]), signal.SIGKILL)
    assert program.stdout.readline() == "1\n", "another node has taken its place, and its tasks"
    assert program.communicate(timeout=SECONDS)[0] == ""
    wait_until(lambda: not nodes(head) and not leases(), SECONDS, "the last node to leave")
    assert not left()

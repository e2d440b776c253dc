"""An autoscaler at work: tasks bring nodes, idleness takes them back, what dies is replaced, and the head may die."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel.testing.command_line import CommandLine
from kernel.testing.faults import wait_until
from kernel.testing.session import temporary_root

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
def head(tmp_path: Path) -> Iterator[CommandLine]:
    file = tmp_path / "autoscaler.toml"
    file.write_text(
        'provider = "loopback"\n[provider_options.kinds]\ntwo = {CPU = 2}\n[provider_options.prices]\ntwo = 0.5\n'
        "[settings]\nidle_seconds = 3\nmaximum_nodes = 2\n"
    )
    with temporary_root() as root:
        line = CommandLine(root)
        line.environment["KERNEL_OPTION_AUTOSCALER_CONFIG"] = str(file)
        line.start("--num-cpus", "0", "--port", "0", "--head-service", "autoscaler")
        yield line
        line.end()


def nodes(head: CommandLine) -> list[str]:
    """Return the ids of the living nodes that the autoscaler has made."""
    rows = head.json("status")["nodes"]
    return [row["NodeID"] for row in rows if row["Alive"] and "kernel/provider-id" in row["Labels"]]


def said(head: CommandLine) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(head.run("autoscaler", "status", "--json").stdout)
    return found


def test_nodes_come_with_tasks_and_go_with_idleness_and_come_back_when_they_die(head: CommandLine) -> None:
    program = head.program(PROGRAM)
    assert program.stdin is not None and program.stdout is not None

    def run(count: int, seconds: float) -> None:
        assert program.stdin is not None
        program.stdin.write(f"{count} {seconds}\n")
        program.stdin.flush()

    run(8, 1.0)
    assert program.stdout.readline() == "2\n", "there may be two nodes"
    made = [row["what"].split() for row in said(head)["decisions"] if row["what"].startswith("make")]
    assert sum(int(count) for _, count, *_ in made) == 2
    wait_until(lambda: not nodes(head), SECONDS, "the idle nodes to leave")
    shown = head.run("autoscaler", "status").stdout
    assert "drain node" in shown and "it was idle for" in shown
    run(2, 6.0)
    wait_until(lambda: len(nodes(head)) == 1, SECONDS, "a node to come")
    (row,) = [row for row in head.json("status")["nodes"] if row["NodeID"] in nodes(head)]
    os.kill(row["AgentPid"], signal.SIGKILL)
    assert program.stdout.readline() == "1\n", "another node has taken its place, and its tasks"
    assert program.communicate(timeout=SECONDS)[0] == ""


def test_what_can_not_be_had_is_explained(head: CommandLine) -> None:
    program = head.program(
        "import kernel, sys\n"
        "with kernel.init(address='auto', log_to_driver=False):\n"
        "    kernel.request_resources([{'CPU': 3}])\n"
        "    print('asked', flush=True)\n"
        "    sys.stdin.readline()\n"
    )
    assert program.stdout is not None and program.stdout.readline() == "asked\n"
    text = "no kind of machine is large enough: two, the nearest, lacks CPU: 1"
    wait_until(lambda: text in head.run("autoscaler", "explain").stdout, SECONDS, "the reason")
    program.communicate("\n", timeout=SECONDS)

"""A breakpoint on another node of a cluster is listed and attached to like one here."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import kernel
from kernel.testing.cluster import Cluster
from kernel.testing.command_line import COMMAND
from kernel.testing.faults import PATIENCE_SECONDS, wait_until
from kernel.testing.terminals import Terminal

PROMPT = "(Pdb) "


@kernel.remote(max_retries=0)
def divide(x: float, y: float) -> float:
    breakpoint()
    return x / y


def test_a_breakpoint_on_another_node() -> None:
    with Cluster(num_cpus=1) as cluster:
        cluster.add_node(num_cpus=1, resources={"there": 1})
        cluster.connect()
        address = ("--address", cluster.head.directory)
        ref = divide.options(resources={"there": 1}).remote(6, 3)

        def rows() -> list[dict[str, Any]]:
            done = subprocess.run([*COMMAND, "debug", "--json", *address], capture_output=True, text=True, check=True)
            return json.loads(done.stdout)  # type: ignore[no-any-return]

        wait_until(rows, PATIENCE_SECONDS, "it waits")
        row = rows()[0]
        assert row["node_id"] != kernel.get_runtime_context().get_node_id()
        with Terminal("-m", "kernel.cli.main", "debug", row["id"], *address) as terminal:
            terminal.expect(PROMPT)
            terminal.send("p x, y")
            assert "(6, 3)\n" in terminal.expect(PROMPT)
            terminal.send("c")
            assert terminal.exit_code() == 0
        assert kernel.get(ref) == 2.0

"""Metrics of a cluster: of all nodes, after a node is lost, and from a shell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kernel
from kernel.testing.cluster import Cluster
from kernel.testing.faults import wait_until

SECONDS = 120.0

pytestmark = pytest.mark.slow


def values(name: str) -> dict[tuple[str, ...], Any]:
    """Return the values of a metric by those of its tags."""
    return {tuple(row["tags"].values()): row["value"] for row in kernel.metrics.collect(name)}


def test_a_cluster_adds_up_and_keeps_what_a_lost_node_told() -> None:
    with Cluster() as cluster:
        cluster.add_node(num_cpus=1, resources={"first": 1})
        second = cluster.add_node(num_cpus=1, resources={"second": 1})
        with cluster.connect():
            seen = kernel.metrics.Counter("cluster_seen_total", tag_keys=("node",))

            @kernel.remote
            def see(node: str) -> int:
                seen.inc(tags={"node": node})
                return os.getpid()

            tasks = [see.options(resources={node: 1}).remote(node) for node in ("first", "second", "second")]
            kernel.get(tasks, timeout=SECONDS)
            assert values("cluster_seen_total") == {("first",): 1, ("second",): 2}
            nodes = values("kernel_nodes")["ALIVE",]
            assert nodes >= 2 and values("kernel_resources")["second",] == 1

            command = [sys.executable, "-m", "kernel.cli.main", "metrics", "cluster_seen_total"]
            token = Path(cluster.token_file).read_text(encoding="utf-8")
            shown = subprocess.run(
                [*command, "--address", cluster.address],
                env={**os.environ, "KERNEL_TOKEN": token},
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=True,
            )
            assert sorted(shown.stdout.splitlines()) == [
                "# HELP cluster_seen_total ",
                "# TYPE cluster_seen_total counter",
                'cluster_seen_total{node="first"} 1',
                'cluster_seen_total{node="second"} 2',
            ]

            cluster.kill_node(second)
            wait_until(lambda: values("kernel_nodes")["ALIVE",] == nodes - 1, SECONDS, "the loss of the node")
            assert values("cluster_seen_total") == {("first",): 1, ("second",): 2}

"""What `kernel plugins new network` writes carries a cluster of two agents, before anything of it is changed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from kernel_conformance.cli.plugin_template import write

import kernel
from kernel.testing.cluster import Cluster
from kernel_processes.node.session_ways import ways_at

SECONDS = 120.0
COUNT = 1_000_000


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Write a network that is called "pigeons", install and choose it."""
    folder = tmp_path / "site"
    write("network", "pigeons", folder)
    info = folder / "kernel_network_pigeons-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kernel-network-pigeons\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[kernel.networks]\npigeons = kernel_network_pigeons.network:network\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("KERNEL_NETWORK", "pigeons")
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "kernel_network_pigeons"]:
        del sys.modules[name]


def test_a_cluster_works_over_a_network_that_was_just_written(site: Path) -> None:
    with Cluster(num_cpus=1) as cluster:
        cluster.add_node(num_cpus=2, resources={"there": 2})
        cluster.connect()

        @kernel.remote(resources={"there": 1})
        def doubled(values: np.ndarray) -> np.ndarray:
            return 2 * values

        @kernel.remote(resources={"there": 1})
        def modules() -> list[str]:
            return list(sys.modules)

        @kernel.remote(resources={"there": 1})
        class Sum:
            def __init__(self) -> None:
                self.value = 0

            def add(self, number: int) -> int:
                self.value += number
                return self.value

        twice = doubled.remote(kernel.put(np.arange(COUNT)))
        assert (kernel.get(twice, timeout=SECONDS) == 2 * np.arange(COUNT)).all()
        imported = kernel.get(modules.remote(), timeout=SECONDS)
        assert "kernel_network_pigeons.network" in imported and "kernel_network_tcp" not in imported
        total = Sum.remote()
        assert kernel.get([total.add.remote(number) for number in range(100)], timeout=SECONDS)[-1] == sum(range(100))
        assert ways_at(cluster.head.directory).network == "kernel_network_pigeons.network:network"

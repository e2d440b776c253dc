"""A stranger's network, chosen by its name, carries objects and messages between the nodes of a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kernel
from kernel.testing.cluster import Cluster

SECONDS = 120.0
NETWORK = """
import os

from kernel_network_tcp.network import TcpNetwork
from kernel_network_tcp.node_network import TcpNodeNetwork
from kernel_network_tcp.process_network import TcpProcessNetwork
from kernel_network_tcp.node_links import TcpNodeLinks


def note(word):
    with open({path!r}, "a") as file:
        file.write(f"{{word}} {{os.getpid()}}\\n")


class Links(TcpNodeLinks):
    def pull(self, *arguments, **options):
        note("pull")
        return super().pull(*arguments, **options)


class Node(TcpNodeNetwork):
    def link(self, store, deliver):
        links = super().link(store, deliver)
        links.__class__ = Links
        note("link")
        return links


class Process(TcpProcessNetwork):
    def connect(self, address, on_messages, on_close):
        note("connect")
        return super().connect(address, on_messages, on_close)

    def receive(self, *calls):
        note("receive")
        return super().receive(*calls)


class Mine(TcpNetwork):
    def open_node(self, settings, loop, on_refused):
        note("open")
        return Node(settings, loop, on_refused)

    def open_process(self, token, tls, loop):
        return Process(token, None, loop)


network = Mine()
"""


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install a network that is called "mine" and choose it; return the file in which it notes what it is asked."""
    site, file = tmp_path / "site", tmp_path / "notes"
    info = site / "replaced_network-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: replaced-network\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kernel.networks]\nmine = replaced_network:network\n")
    (site / "replaced_network.py").write_text(NETWORK.format(path=str(file)))
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("KERNEL_NETWORK", "mine")
    yield file
    sys.modules.pop("replaced_network", None)


def test_a_cluster_with_another_network(notes: Path) -> None:
    with Cluster(num_cpus=1) as cluster:
        node = cluster.add_node(num_cpus=1, resources={"there": 1})
        cluster.connect()

        @kernel.remote(resources={"there": 1})
        def ones(count: int) -> np.ndarray:
            return np.ones(count, np.int64)

        @kernel.remote(resources={"there": 1})
        def pid() -> int:
            return os.getpid()

        assert kernel.get(ones.remote(1_000_000), timeout=SECONDS).sum() == 1_000_000
        worker = str(kernel.get(pid.remote(), timeout=SECONDS))
        noted = [line.split() for line in notes.read_text().splitlines()]
        head = str(cluster.head.agent)
        assert {(word, pid) for word, pid in noted} >= {
            *((word, pid) for word in ("open", "link") for pid in (head, str(node.agent))),
            ("pull", head),
            ("connect", str(node.agent)),
            ("connect", str(os.getpid())),
            ("receive", worker),
            ("receive", str(os.getpid())),
        }

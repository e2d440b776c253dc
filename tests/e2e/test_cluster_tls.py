"""A cluster whose nodes speak TLS works as any other, and lets nobody in who does not."""

from __future__ import annotations

from pathlib import Path

import pytest

import kernel
from kernel.testing.cluster import Cluster
from kernel.testing.faults import wait_until
from kernel_processes.cli import certificates
from kernel_spec.tls_files import TlsFiles

SECONDS = 120.0


def test_nodes_work_together_in_tls_and_refuse_who_speaks_none(tmp_path: Path) -> None:
    certificates.create(tmp_path / "good")
    certificates.create(tmp_path / "stranger")
    tls = TlsFiles.of_directory(str(tmp_path / "good"))
    with Cluster(num_cpus=1, tls=tls) as cluster:
        cluster.add_node(num_cpus=1, resources={"there": 1}, tls=tls)
        cluster.connect()

        @kernel.remote(resources={"there": 1})
        def double(value: bytes) -> bytes:
            return value * 2

        assert kernel.get(double.remote(b"x" * 50_000), timeout=SECONDS) == b"x" * 100_000

        @kernel.remote(resources={"there": 1})
        def large(size: int) -> bytes:
            return b"y" * size

        assert kernel.get(large.remote(5_000_000), timeout=SECONDS) == b"y" * 5_000_000
        for wrong, said in ((None, "speaks TLS only"), ("stranger", "of another authority")):
            with pytest.raises(Exception, match=said):
                cluster.add_node(tls=wrong and TlsFiles.of_directory(str(tmp_path / wrong)))
        wait_until(lambda: "a peer speaks no TLS" in cluster.head.log(), SECONDS, "the refusal in the log")
        wait_until(
            lambda: "refuses the certificate of this node" in cluster.head.log(), SECONDS, "the refusal in the log"
        )

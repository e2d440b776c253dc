"""The reference object store, from which new ones start, serves sessions: large values on one node and on two."""

from __future__ import annotations

import numpy
import pytest

import kernel
from kernel.testing.cluster import Cluster
from kernel.testing.session import running_session


@kernel.remote
def double(array: numpy.ndarray) -> numpy.ndarray:
    return array * 2


def test_large_values_on_one_node() -> None:
    numbers = numpy.arange(1 << 20)
    with running_session(num_cpus=2, object_store="local", object_store_memory=64 << 20):
        one = kernel.put(numbers)
        for _ in range(20):  # together more than the store holds: what nobody needs any more makes room
            assert (kernel.get(double.remote(one)) == numbers * 2).all()
        assert not kernel.get(one).flags.writeable


def test_large_values_on_two_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNEL_OBJECT_STORE", "local")
    numbers = numpy.arange(1 << 20)
    with Cluster(num_cpus=1) as cluster:
        cluster.add_node(num_cpus=1, resources={"there": 1})
        cluster.connect()
        cluster.wait_for_nodes(2)
        there = double.options(resources={"there": 1}, num_cpus=0)
        assert (kernel.get(there.remote(kernel.put(numbers))) == numbers * 2).all()

"""Iterators, groups and locks whose users are on several nodes, one of which dies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from kernel_parallel import collective
from kernel_parallel.collective import RankDiedError
from kernel_parallel.coordination import Counter, Lock
from kernel_parallel.iterators import ParallelIteratorWorker, ShardDiedError, from_actors

import kernel
from kernel.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    kernel.shutdown()
    with Cluster(num_cpus=1, resources={"a": 10}, death_seconds=60.0) as cluster:
        cluster.add_node(num_cpus=1, resources={"b": 10})
        cluster.connect()
        yield cluster


class Member:
    def __init__(self) -> None:
        self.lock: Any = None

    def join(self, rank: int) -> str:
        collective.init_collective_group(2, rank, group_name="nodes", timeout=600)
        return kernel.get_runtime_context().get_node_id()

    def allreduce(self, count: int) -> float:
        array = np.ones(count)
        collective.allreduce(array, "nodes")
        return float(array.sum())

    def acquire(self) -> bool:
        self.lock = Lock("nodes", lease=1.0)
        return bool(self.lock.acquire())


def test_members_and_shards_are_on_several_nodes_until_one_dies(cluster: Cluster) -> None:
    node = cluster.add_node(num_cpus=1, resources={"c": 10})
    member = kernel.remote(Member)
    here, there = (member.options(resources={name: 1}, num_cpus=0).remote() for name in "ac")
    assert len(set(kernel.get([here.join.remote(0), there.join.remote(1)]))) == 2
    for count in (10, 100_000):
        assert kernel.get([one.allreduce.remote(count) for one in (here, there)]) == [2.0 * count] * 2
    worker = kernel.remote(ParallelIteratorWorker)
    shards = [worker.options(resources={name: 1}, num_cpus=0).remote(range(1000)) for name in "bc"]
    items = from_actors(shards, "nodes").for_each(lambda x: x).gather_sync()
    assert items.take(4) == [0, 0, 1, 1]
    assert Counter("nodes").add() == 1 and kernel.get(there.acquire.remote())
    waiting = here.allreduce.remote(1_000_000)
    cluster.kill_node(node)
    with pytest.raises(RankDiedError, match="rank 1 of group 'nodes' has left or died"):
        kernel.get(waiting, timeout=120)
    with pytest.raises(ShardDiedError, match=r"nodes\.for_each\(\)\.shard\[1\] died after \d+ items"):
        list(items)
    with Lock("nodes"):
        assert Counter("nodes").add() == 2

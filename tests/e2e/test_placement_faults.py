"""Nodes that go and heads that are replaced, under placement groups and strategies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kernel
from kernel.testing.cluster import Cluster
from kernel.testing.faults import wait_until
from kernel_spec.errors import InfeasibleError

Inside = kernel.PlacementGroupSchedulingStrategy
SECONDS = 120.0


@kernel.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)
class Member:
    def __init__(self) -> None:
        self.calls = 0

    def call(self) -> tuple[int, str]:
        self.calls += 1
        return self.calls, kernel.get_runtime_context().get_node_id()


@kernel.remote
def where() -> str:
    return kernel.get_runtime_context().get_node_id()


def state_of(group: kernel.PlacementGroup) -> str:
    return str(kernel.placement_group_table(group)["state"])


def test_bundles_of_a_lost_node_are_placed_again_and_what_is_inside_waits() -> None:
    kernel.shutdown()
    with Cluster(num_cpus=1) as cluster:
        lost = cluster.add_node(num_cpus=2)
        cluster.connect()
        group = kernel.placement_group([{"CPU": 1}, {"CPU": 2}], "STRICT_SPREAD", name="gang")
        kernel.get(group.ready(), timeout=SECONDS)
        stays = Member.options(scheduling_strategy=Inside(group, 0)).remote()
        moves = Member.options(scheduling_strategy=Inside(group, 1)).remote()
        assert kernel.get(stays.call.remote(), timeout=SECONDS) == (1, cluster.head.id)
        assert kernel.get(moves.call.remote(), timeout=SECONDS) == (1, lost.id)
        cluster.kill_node(lost)
        wait_until(lambda: state_of(group) == "RESCHEDULING", SECONDS, "the loss of the bundle")
        assert kernel.placement_group_table(group)["bundles_to_node_id"] == {0: cluster.head.id}
        assert f"node {lost.id[:8]} is gone" in kernel.explain(group)
        assert not group.wait(0.2), "it is not whole"
        task = where.options(scheduling_strategy=Inside(group, 1)).remote()
        call = moves.call.remote()
        assert kernel.wait([task, call], timeout=0.2)[0] == []
        assert kernel.get(stays.call.remote(), timeout=SECONDS) == (2, cluster.head.id), "the others run on"
        found = cluster.add_node(num_cpus=2)
        assert group.wait(SECONDS) and state_of(group) == "CREATED"
        assert kernel.get([task, call], timeout=SECONDS) == [found.id, (1, found.id)]


def test_an_affinity_without_its_node_fails_unless_it_is_soft() -> None:
    kernel.shutdown()
    with Cluster(num_cpus=1) as cluster:
        lost = cluster.add_node(num_cpus=1)
        cluster.connect()
        hard = where.options(scheduling_strategy=kernel.NodeAffinitySchedulingStrategy(lost.id, soft=False))
        soft = where.options(scheduling_strategy=kernel.NodeAffinitySchedulingStrategy(lost.id, soft=True))
        assert kernel.get([hard.remote(), soft.remote()], timeout=SECONDS) == [lost.id] * 2
        keeper = Member.options(scheduling_strategy=kernel.NodeAffinitySchedulingStrategy(lost.id, soft=False)).remote()
        kernel.get(keeper.call.remote(), timeout=SECONDS)
        waiting = hard.remote()
        assert kernel.wait([waiting], timeout=0.2)[0] == [], "the node is full"
        cluster.kill_node(lost)
        gone = f"may run only on node {lost.id}, and that is gone"
        for ref in (waiting, hard.remote(), keeper.call.remote()):
            with pytest.raises(InfeasibleError, match=gone):
                kernel.get(ref, timeout=SECONDS)
        assert kernel.get(soft.remote(), timeout=SECONDS) == cluster.head.id


@pytest.fixture
def replaced() -> Iterator[Any]:
    """A cluster of two nodes whose head can be killed: `replaced()` returns when another is there."""
    kernel.shutdown()
    settings = {"plugins": {"metadata_store": "sqlite"}, "death_seconds": 30.0}
    with Cluster(num_cpus=1, head_apart=True, **settings) as cluster:
        cluster.add_node(num_cpus=2)
        cluster.connect(namespace="space")

        def replace() -> None:
            old = cluster.kill_head()

            def another() -> bool:
                try:
                    return cluster.head_process() != old
                except AssertionError:
                    return False

            wait_until(another, SECONDS, "another head")

        yield replace


def test_groups_outlive_a_head_and_nothing_in_them_ends(replaced: Any) -> None:
    group = kernel.placement_group([{"CPU": 1}] * 2, "STRICT_SPREAD", name="gang")
    kernel.get(group.ready(), timeout=SECONDS)
    before = kernel.placement_group_table(group)
    member = Member.options(scheduling_strategy=Inside(group, 1)).remote()
    first = kernel.get(member.call.remote(), timeout=SECONDS)
    waits = kernel.placement_group([{"CPU": 2}, {"CPU": 1}], name="waits")
    ready = waits.ready()
    replaced()
    assert kernel.get(member.call.remote(), timeout=SECONDS) == (first[0] + 1, first[1])
    assert kernel.placement_group_table(kernel.get_placement_group("gang")) == before
    assert kernel.get(where.options(scheduling_strategy=Inside(group, 0)).remote(), timeout=SECONDS)
    assert kernel.wait([ready], timeout=0.2)[0] == [], "what the group holds is not given to others"
    kernel.remove_placement_group(group)
    assert kernel.get(ready, timeout=SECONDS) == waits
    kernel.remove_placement_group(waits)
    wait_until(lambda: kernel.available_resources()["CPU"] == 3, SECONDS, "three free CPUs")

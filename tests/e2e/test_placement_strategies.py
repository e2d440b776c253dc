"""Scheduling strategies and the pull of large arguments, over several nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import kernel
from kernel.testing.cluster import Cluster, ClusterNode
from kernel_spec.errors import InfeasibleError

SECONDS = 120.0
Affinity = kernel.NodeAffinitySchedulingStrategy
Labels = kernel.NodeLabelSchedulingStrategy


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[ClusterNode]]:
    """The head's node and two others, each with two CPUs, in zones a, b and c."""
    kernel.shutdown()
    with Cluster(num_cpus=2, labels={"zone": "a"}) as cluster:
        cluster.add_node(num_cpus=2, labels={"zone": "b", "disk": "ssd"})
        cluster.add_node(num_cpus=2, labels={"zone": "c"})
        cluster.connect()
        yield cluster.nodes


@kernel.remote
def where(*arguments: Any) -> str:
    return kernel.get_runtime_context().get_node_id()


@kernel.remote
class Somebody:
    def where(self) -> str:
        return kernel.get_runtime_context().get_node_id()


@kernel.remote
def make(count: int) -> Any:
    return numpy.zeros(count, dtype=numpy.uint8)


@pytest.fixture
def run(nodes: list[ClusterNode], eventually: Any) -> Callable[[Any], str]:
    """Return where a task with a strategy runs while nobody else holds a CPU."""

    def run(strategy: Any) -> str:
        eventually(lambda: kernel.available_resources()["CPU"] == 6)
        return str(kernel.get(where.options(scheduling_strategy=strategy).remote(), timeout=SECONDS))

    return run


def test_affinity_goes_to_its_node(nodes: list[ClusterNode], run: Any) -> None:
    for node in nodes:
        assert run(Affinity(node.id, soft=False)) == node.id
        assert run(Affinity(node.id, soft=True)) == node.id
        actor = Somebody.options(scheduling_strategy=Affinity(node.id, soft=False)).remote()
        assert kernel.get(actor.where.remote(), timeout=SECONDS) == node.id


def test_affinity_to_a_node_that_never_was_fails_unless_it_is_soft(nodes: list[ClusterNode], run: Any) -> None:
    nowhere = "00" * 8
    assert run(Affinity(nowhere, soft=True)) in [node.id for node in nodes]
    with pytest.raises(
        InfeasibleError, match=f"where.. may run only on node {nowhere}, and there never was such a node"
    ):
        run(Affinity(nowhere, soft=False))
    actor = Somebody.options(scheduling_strategy=Affinity(nowhere, soft=False)).remote()
    with pytest.raises(InfeasibleError, match=f"Somebody may run only on node {nowhere}"):
        kernel.get(actor.where.remote(), timeout=SECONDS)


@pytest.mark.usefixtures("patient_explanations")
def test_labels_choose_the_node(nodes: list[ClusterNode], run: Any) -> None:
    assert run(Labels(hard={"zone": "b"})) == nodes[1].id
    assert run(Labels(hard={"zone": {"not_in": ["a", "b"]}})) == nodes[2].id
    assert run(Labels(soft={"disk": {"exists": True}})) == nodes[1].id
    assert run(Labels(hard={"zone": ["a", "c"]}, soft={"zone": "c"})) == nodes[2].id
    assert run(Labels(soft={"zone": "z"})) in [node.id for node in nodes], "a wish is no condition"
    ref = where.options(scheduling_strategy=Labels(hard={"zone": "z"})).remote()
    assert kernel.wait([ref], timeout=0.2)[0] == []
    assert "zone in (z)" in kernel.explain(ref)
    kernel.cancel(ref)


def test_label_selectors_choose_the_node(nodes: list[ClusterNode]) -> None:
    def run(**options: Any) -> Any:
        return kernel.get(where.options(**options).remote(), timeout=SECONDS)

    assert run(label_selector={"zone": "in(b, x)"}) == nodes[1].id
    assert run(label_selector={"zone": "!in(a, b)"}) == nodes[2].id
    assert run(label_selector={"kernel/node-id": nodes[2].id}) == nodes[2].id
    assert run(label_selector={"kernel/node-id": "!" + nodes[0].id, "disk": "!ssd"}) == nodes[2].id
    assert run(label_selector={"zone": "c"}, scheduling_strategy="SPREAD") == nodes[2].id
    assert run(label_selector={"zone": "b"}, scheduling_strategy=Affinity(nodes[1].id, False)) == nodes[1].id
    fallback = [{"label_selector": {"disk": "tape"}}, {"label_selector": {"zone": "c"}}]
    assert run(label_selector={"zone": "z"}, fallback_strategy=fallback) == nodes[2].id
    actor = Somebody.options(label_selector={"zone": "z"}, fallback_strategy=fallback).remote()
    assert kernel.get(actor.where.remote(), timeout=SECONDS) == nodes[2].id


def test_spread_uses_every_node(nodes: list[ClusterNode], eventually: Any) -> None:
    eventually(lambda: kernel.available_resources()["CPU"] == 6)
    spread = [Somebody.options(num_cpus=1, scheduling_strategy="SPREAD").remote() for _ in range(3)]
    assert {kernel.get(one.where.remote(), timeout=SECONDS) for one in spread} == {node.id for node in nodes}


def place(eventually: Any, nodes: list[ClusterNode], *sizes: int) -> list[kernel.ObjectRef]:
    """Return arrays of so many bytes on each node in turn, once nobody holds a CPU any more."""
    refs = [make.options(scheduling_strategy=Affinity(node.id, soft=False)).remote(n) for node in nodes for n in sizes]
    kernel.wait(refs, num_returns=len(refs), timeout=SECONDS, fetch_local=False)
    eventually(lambda: kernel.available_resources()["CPU"] == 6)
    return refs


@pytest.mark.parametrize("number", [1, 2])
def test_a_task_goes_where_its_large_argument_lies(nodes: list[ClusterNode], number: int, eventually: Any) -> None:
    large, small = place(eventually, [nodes[number]], 50_000_000, 200_000)
    assert kernel.get(where.remote(large), timeout=SECONDS) == nodes[number].id
    assert kernel.get(where.remote(1, small, large), timeout=SECONDS) == nodes[number].id
    assert kernel.get(where.remote([large]), timeout=SECONDS) == nodes[number].id, "within another value, too"
    new = where.options(resources={"node:127.0.0.1": 0.001 * number})  # a shape that has no idle leases yet
    assert kernel.get(new.remote(small), timeout=SECONDS) == nodes[0].id, "a little data is no reason to go"


def test_many_large_arguments_draw_each_task_to_its_own(nodes: list[ClusterNode], eventually: Any) -> None:
    blocks = place(eventually, nodes, 5_000_000, 5_000_000)
    ran = kernel.get([where.remote(block) for block in blocks], timeout=SECONDS)
    assert ran == [node.id for node in nodes for _ in "xx"]


def test_data_that_lies_on_a_full_node_comes_along(nodes: list[ClusterNode], eventually: Any) -> None:
    (block,) = place(eventually, [nodes[2]], 5_000_000)
    holder = Somebody.options(num_cpus=1, scheduling_strategy=Affinity(nodes[2].id, soft=False))
    holding = [holder.remote() for _ in "xx"]
    kernel.get([one.where.remote() for one in holding], timeout=SECONDS)
    assert kernel.get(where.remote(block), timeout=SECONDS) in (nodes[0].id, nodes[1].id)

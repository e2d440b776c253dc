"""The controller in a cluster: nodes that are drained and lost, a head that is started again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kernel_serve.settings import GRPCOptions, HTTPOptions
from kernel_serve.testing.controllers import SECONDS, TestedController
from kernel_serve.testing.stand_ins import StandInProxy, StandInReplica
from kernel_serve.testing.world import application, settings

import kernel
from kernel.testing.cluster import Cluster
from kernel.testing.faults import wait_until


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    kernel.shutdown()
    options = {"head_apart": True, "plugins": {"metadata_store": "sqlite"}}
    with Cluster(num_cpus=1, death_seconds=SECONDS, **options) as cluster:  # who is slow is not dead
        cluster.connect(log_to_driver=False)
        yield cluster


def nodes_of(controller: TestedController) -> list[str]:
    """Return the node of each replica that takes requests."""
    return sorted(each.node for each in controller.replica_set().replicas)


def test_all_goes_on_when_the_head_is_killed(cluster: Cluster) -> None:
    controller = TestedController(StandInReplica, StandInProxy)
    controller.ask("configure_proxies", "EveryNode", HTTPOptions(), GRPCOptions())
    controller.deploy(application(main=settings(num_replicas=2)))
    before, pid = controller.numbers(), controller.pid()
    cluster.kill_head()
    controller.deploy(application("more", "/more"))
    assert controller.numbers() == before
    assert controller.pid() == pid
    controller.kill()
    assert controller.numbers() == before
    controller.end()


def test_a_drained_node_is_left_without_a_gap_and_a_lost_one_made_good(cluster: Cluster) -> None:
    first, second = cluster.add_node(num_cpus=4), cluster.add_node(num_cpus=4)
    cluster.wait_for_nodes(3, SECONDS)
    controller = TestedController(StandInReplica, StandInProxy)
    controller.ask("configure_proxies", "EveryNode", HTTPOptions(), GRPCOptions())
    assert len(controller.ask("status")["proxies"]) == 3
    values = settings(num_replicas=2, actor_options={"num_cpus": 2}, max_replicas_per_node=1)
    controller.deploy(application(main=values))
    assert nodes_of(controller) == sorted([first.id, second.id])
    third = cluster.add_node(num_cpus=4)
    kernel.drain_node(second.id)
    wait_until(lambda: nodes_of(controller) == sorted([first.id, third.id]), SECONDS, "replicas on nodes that stay")
    wait_until(lambda: len(controller.ask("status")["proxies"]) == 3, SECONDS, "proxies on nodes that stay")
    states = {row["NodeID"]: row for row in kernel.nodes()}
    wait_until(lambda: not _alive(second.id), SECONDS, f"the end of the drained node {states[second.id]}")
    fourth = cluster.add_node(num_cpus=4)
    cluster.kill_node(first)
    wait_until(lambda: nodes_of(controller) == sorted([third.id, fourth.id]), SECONDS, "replicas on living nodes")
    controller.wait("app", "RUNNING")
    controller.end()


def _alive(node: str) -> bool:
    return any(row["NodeID"] == node and row["Alive"] for row in kernel.nodes())

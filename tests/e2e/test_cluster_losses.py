"""Nodes that are lost with what others wait for."""

from __future__ import annotations

import numpy

import kernel
from benchmarks.chaos.soak import wait_until_empty
from kernel.testing import Cluster
from kernel.testing.faults import wait_until

SECONDS = 120.0


@kernel.remote(num_cpus=0, resources={"one": 0.01}, max_retries=3)
def fill(value):
    return numpy.full(200_000, value)


@kernel.remote(num_cpus=0, resources={"late": 0.01})
def total(array):
    return int(array.sum())


@kernel.remote(num_cpus=0, resources={"late": 0.01})
class Totals:
    def total(self, array):
        return int(array.sum())


def test_an_argument_that_was_lost_while_its_task_waited_is_made_again():
    kernel.shutdown()
    with Cluster(num_cpus=1) as cluster:
        node = cluster.add_node(num_cpus=1, resources={"one": 1})
        cluster.connect()
        refs = [fill.remote(value) for value in range(3)]
        kernel.wait(refs, num_returns=3, timeout=SECONDS)
        actor = Totals.remote()
        waiting = [*(total.remote(ref) for ref in refs), *(actor.total.remote(ref) for ref in refs)]
        wait_until(lambda: "late" in kernel.explain(waiting[0]), SECONDS, "the task to wait for its resource")
        cluster.kill_node(node)
        wait_until(lambda: sum(row["Alive"] for row in kernel.nodes()) == 1, SECONDS, "the node's end")
        cluster.add_node(num_cpus=1, resources={"one": 1, "late": 1})
        assert kernel.get(waiting, timeout=SECONDS) == [200_000 * value for value in range(3)] * 2
        waiting.clear()
        del refs, actor
        assert wait_until_empty(SECONDS) == []

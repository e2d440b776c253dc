"""Many nodes on this machine: what the head and each agent cost, idle and while tasks run on all of them.

python -m benchmarks.nodes [--steps 1,10,25,50] [--tasks 100000]
"""

from __future__ import annotations

import argparse
import os
import sys
import time

import kernel
from kernel.testing.cluster import Cluster

IDLE_SECONDS = 5.0


def resident(pid: int) -> float:
    """Return how much memory a process occupies, in MB."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def processor_seconds(pid: int) -> float:
    """Return how much processor time a process has used."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@kernel.remote
def small() -> int:
    return 1


@kernel.remote(scheduling_strategy="SPREAD")
def where() -> str:
    time.sleep(0.2)
    return kernel.get_runtime_context().get_node_id()


def measure(cluster: Cluster, tasks: int) -> str:
    """Return a row of the table for the cluster as it is."""
    head, agents = cluster.head_process(), [node.agent for node in cluster.nodes[1:]]
    before, begun = [processor_seconds(pid) for pid in (head, *agents)], time.perf_counter()
    time.sleep(IDLE_SECONDS)
    spent = time.perf_counter() - begun
    idle = [(processor_seconds(pid) - was) / spent for pid, was in zip((head, *agents), before, strict=True)]
    used = len(set(kernel.get([where.remote() for _ in range(2 * len(agents))], timeout=300)))
    busy, begun = processor_seconds(head), time.perf_counter()
    kernel.get([small.remote() for _ in range(tasks)], timeout=600)
    seconds = time.perf_counter() - begun
    memory = sum(map(resident, agents)) / len(agents)
    cells = (
        str(len(agents)),
        f"{resident(head):.0f} MB",
        f"{idle[0]:.2%}",
        f"{memory:.0f} MB",
        f"{sum(idle[1:]) / len(agents):.2%}",
        str(used),
        f"{tasks / seconds:,.0f}",
        f"{processor_seconds(head) - busy:.2f} s",
    )
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Grow a cluster step by step and print a table."""
    parser = argparse.ArgumentParser(description="Measure what many nodes cost.")
    parser.add_argument("--steps", default="1,10,25,50", help="numbers of nodes to measure at")
    parser.add_argument("--tasks", type=int, default=100_000, help="tasks to run on them")
    given = parser.parse_args()
    options = {"object_store_memory": 64 << 20, "plugins": {"metadata_store": "sqlite"}, "death_seconds": 30.0}
    print("| nodes | head | idle head | an agent | an idle agent | nodes used | tasks a second | head, meanwhile |")
    print("|---|---|---|---|---|---|---|---|")
    with Cluster(num_cpus=0, head_apart=True, **options) as cluster:
        cluster.connect()
        for step in map(int, given.steps.split(",")):
            begun = time.perf_counter()
            added = step - len(cluster.nodes) + 1
            for _ in range(added):
                cluster.add_node(num_cpus=1, object_store_memory=16 << 20)
            joining = (time.perf_counter() - begun) / max(1, added)
            print(f"{measure(cluster, given.tasks)} <!-- a node joins in {joining:.2f} s -->", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

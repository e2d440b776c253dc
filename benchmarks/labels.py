"""What a lease costs a scheduler that says on which nodes it may go, beside one that may go anywhere. Nodes simulated.

python -m benchmarks.labels [--nodes 1000] [--scheduler fifo --scheduler fair]

A tenth of the nodes is in each zone, and all but the last zone are half full: that one has no room. Each case is asked
for and given back, or withdrawn where it has to wait, again and again; what is said is the median of both together.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from kernel.plugins import PluginManager
from kernel_spec.ids import JobId, LeaseId, NodeId, ProcessId
from kernel_spec.labels import NODE_ID_LABEL
from kernel_spec.resources import amounts
from kernel_spec.scheduling import (
    Grant,
    LeaseCancelled,
    LeaseReleased,
    LeaseRequest,
    LeaseRequested,
    NodeAdded,
    Scheduler,
)

CPUS, ZONES = 8, 10
FULL = f"z{ZONES - 1}"


def node_id(number: int) -> NodeId:
    """Return the id of a node."""
    return NodeId(number.to_bytes(8, "big"))


def labels_of(number: int, nodes: int) -> Mapping[str, str]:
    """Return the labels of a node: the last one has a disk that no other has."""
    own = {"zone": f"z{number % ZONES}", NODE_ID_LABEL: node_id(number).hex()}
    return {
        **own,
        "half": "first" if number < nodes // 2 else "second",
        **({"disk": "nvme"} if number == nodes - 2 else {}),
    }


class Bench:
    """A scheduler with its nodes, which are partly full."""

    def __init__(self, scheduler: Scheduler, nodes: int) -> None:
        self._scheduler = scheduler
        self._ids = count(1)
        self.nodes = nodes
        for number in range(nodes):
            scheduler.handle(NodeAdded(node_id(number), {"CPU": CPUS}, labels_of(number, nodes)), 0.0)
        for number in range(nodes):
            full = number % ZONES == ZONES - 1
            for _ in range(CPUS if full else CPUS // 2):
                there = {"type": "node_affinity", "node": node_id(number).hex()}
                assert isinstance(self.ask(there)[1], Grant)

    def ask(self, strategy: str | Mapping[str, Any]) -> tuple[LeaseId, Grant | None]:
        """Ask for one CPU; return the grant if there is one."""
        id = LeaseId(next(self._ids).to_bytes(8, "big"))
        request = LeaseRequest(id, JobId(b"job-----"), ProcessId(b"process1"), amounts({"CPU": 1}), "", strategy)
        said = self._scheduler.handle(LeaseRequested(request), 0.0)
        return id, next((each for each in said if isinstance(each, Grant) and each.id == id), None)

    def measure(self, strategy: str | Mapping[str, Any], seconds: float) -> tuple[float, bool]:
        """Return how many microseconds a lease takes, and whether it was granted."""
        took: list[float] = []
        grant: Grant | None = None
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(took) < 3:
            begun = time.perf_counter()
            id, grant = self.ask(strategy)
            self._scheduler.handle(LeaseReleased(id) if grant is not None else LeaseCancelled(id), 0.0)
            took.append(time.perf_counter() - begun)
        return statistics.median(took) * 1e6, grant is not None


def cases(nodes: int) -> Iterator[tuple[str, str | Mapping[str, Any]]]:
    """Yield what is asked for, and how to say it."""

    def on(**hard: Any) -> Mapping[str, Any]:
        return {"type": "node_labels", "hard": hard}

    some = nodes // 2 + 1
    yield "anywhere", "DEFAULT"
    yield "in a zone", on(zone="z3")
    yield "in one of three zones", on(zone=["z3", "z4", "z5"])
    yield "in no zone but one", on(zone={"not_in": [f"z{number}" for number in range(ZONES) if number != 3]})
    yield "on the one node with a disk", on(disk="nvme")
    yield "on a node without that disk", on(disk={"exists": False})
    yield "in a zone, and in the second half", on(zone="z3", half="second")
    yield "rather in a zone", {"type": "node_labels", "soft": {"zone": "z3"}}
    yield "in a zone that is full: it waits", on(zone=FULL)
    yield "rather in a zone that is full", {"type": "node_labels", "soft": {"zone": FULL}}
    yield "in a zone that there is not: it waits", on(zone="z99")
    yield "on a node, by its label", {"type": "node_labels", "hard": {NODE_ID_LABEL: node_id(some).hex()}}
    yield "on a node, by affinity", {"type": "node_affinity", "node": node_id(some).hex()}
    yield "rather on a node that is gone", {"type": "node_affinity", "node": node_id(nodes).hex(), "soft": True}


def main() -> int:
    """Measure all cases with each scheduler, and print a table."""
    parser = argparse.ArgumentParser(description="Measure what conditions on labels cost a scheduler.")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--scheduler", action="append", help="one to measure, again for each (default: fifo and fair)")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long each case is measured")
    given = parser.parse_args()
    names = given.scheduler or ["fifo", "fair"]
    manager = PluginManager.discover()
    benches = [Bench(manager.choose("scheduler", name)(), given.nodes) for name in names]
    print(f"| a lease, with {given.nodes:,} nodes | {' | '.join(names)} |")
    print(f"|---|{'---|' * len(names)}")
    for what, strategy in cases(given.nodes):
        cells = [f"{bench.measure(strategy, given.seconds)[0]:.1f} µs" for bench in benches]
        print(f"| {what} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

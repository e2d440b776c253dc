"""A program outside the cluster beside one on the head's node: the same work, taken in turn, on this machine.

python -m benchmarks.remote [--rounds 3]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy

import kernel
from kernel.testing.cluster import Cluster

MANY, FEW = 5_000, 500
LARGE = 100_000_000
STORE_BYTES = 1 << 30


@kernel.remote
def same(x: Any) -> Any:
    return x


@kernel.remote(num_cpus=0, resources={"far": 1})
class Far:
    def same(self, x: Any = None) -> Any:
        return x

    def total(self, array: Any) -> float:
        return float(array[::4096].sum())

    def make(self) -> Any:
        return numpy.ones(LARGE, dtype=numpy.uint8)


def rate(count: int, function: Callable[[], Any]) -> float:
    """Return how often a second `count` things were done by calling `function`."""
    begun = time.perf_counter()
    function()
    return count / (time.perf_counter() - begun)


def measure() -> dict[str, float]:
    """Return what this program, which is connected, can do."""
    far = Far.remote()
    kernel.get([far.same.remote(), *(same.remote(i) for i in range(200))])
    found = {
        "tasks, at once, 1/s": rate(MANY, lambda: kernel.get([same.remote(i) for i in range(MANY)])),
        "tasks, one by one, 1/s": rate(FEW, lambda: [kernel.get(same.remote(i)) for i in range(FEW)]),
        "actor calls, at once, 1/s": rate(MANY, lambda: kernel.get([far.same.remote(i) for i in range(MANY)])),
        "actor calls, one by one, 1/s": rate(FEW, lambda: [kernel.get(far.same.remote(i)) for i in range(FEW)]),
    }
    given = kernel.put(numpy.ones(LARGE, dtype=numpy.uint8))
    found["100 MB to an actor, MB/s"] = rate(LARGE, lambda: kernel.get(far.total.remote(given))) / 1e6
    made = far.make.remote()
    kernel.get(far.same.remote())
    found["100 MB from an actor, MB/s"] = rate(LARGE, lambda: kernel.get(made)) / 1e6
    return found


def main() -> int:
    """Measure and print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured; medians are shown")
    rounds = parser.parse_args().rounds
    rows: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    joined: dict[bool, list[float]] = {False: [], True: []}
    with Cluster(num_cpus=1, head_apart=True, object_store_memory=STORE_BYTES) as cluster:
        cluster.add_node(num_cpus=1, resources={"far": 1}, object_store_memory=STORE_BYTES)
        for number in range(2 * rounds):
            remote = number % 2 == 1
            begun = time.perf_counter()
            cluster.connect(remote=remote)
            joined[remote].append(time.perf_counter() - begun)
            rows[remote].append(measure())
            kernel.shutdown()
    print("| | on the head's node | outside |\n|---|---|---|")
    print("| init, s |" + "|".join(f" {statistics.median(joined[remote]):.2f} " for remote in (False, True)) + "|")
    for name in rows[False][0]:
        medians = [statistics.median(row[name] for row in rows[remote]) for remote in (False, True)]
        print(f"| {name} | " + " | ".join(f"{median:,.0f}" for median in medians) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

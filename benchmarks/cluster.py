"""Several nodes on this machine, measured on kernel and, with `--compare PYTHON`, on Ray in that Python in turn.

python -m benchmarks.cluster [--compare PYTHON] [--only WORD]

The same program runs on both through their own cluster fixtures. Figures depend on the machine: ratios count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SECONDS = 2.0
GIGABYTE = 1 << 30


class Kernel:
    """The verbs of the program, on kernel."""

    def __init__(self) -> None:
        import kernel
        from kernel.testing.cluster import Cluster

        self.api = kernel
        self.cluster = Cluster(num_cpus=1, object_store_memory=3 * GIGABYTE)
        self.cluster.connect()

    def add(self, cpus: int, word: str, store: int = 3 * GIGABYTE) -> Any:
        return self.cluster.add_node(num_cpus=cpus, resources={word: 1000}, object_store_memory=store)

    def kill(self, node: Any) -> None:
        self.cluster.kill_node(node)

    def group(self, bundles: list[dict[str, float]]) -> Any:
        return self.api.placement_group(bundles, strategy="SPREAD")

    def remove_group(self, group: Any) -> None:
        self.api.remove_placement_group(group)

    def close(self) -> None:
        self.cluster.shutdown()


class Ray:
    """The verbs of the program, on Ray."""

    def __init__(self) -> None:
        import ray
        from ray.cluster_utils import Cluster

        self.api = ray
        self.cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 3 * GIGABYTE}
        )
        ray.init(address=self.cluster.address, logging_level="error", log_to_driver=False)

    def add(self, cpus: int, word: str, store: int = 3 * GIGABYTE) -> Any:
        node = self.cluster.add_node(num_cpus=cpus, resources={word: 1000}, object_store_memory=store)
        self.cluster.wait_for_nodes()
        return node

    def kill(self, node: Any) -> None:
        self.cluster.remove_node(node, allow_graceful=False)

    def group(self, bundles: list[dict[str, float]]) -> Any:
        from ray.util import placement_group

        return placement_group(bundles, strategy="SPREAD")

    def remove_group(self, group: Any) -> None:
        from ray.util import remove_placement_group

        remove_placement_group(group)

    def close(self) -> None:
        self.api.shutdown()
        self.cluster.shutdown()


def rate(step: Callable[[], int]) -> float:
    """Return how many things a second `step()`, which returns how many it did, gets done."""
    step()
    done, begun = 0, time.perf_counter()
    while (spent := time.perf_counter() - begun) < SECONDS:
        done += step()
    return done / spent


def rows(engine: Any, only: str) -> Iterator[tuple[str, float, str]]:
    """Measure everything whose name contains `only`."""
    api = engine.api
    begun = time.perf_counter()
    engine.add(2, "far")
    yield "node joins", time.perf_counter() - begun, "s"
    for measure in (calls, actors, transfers, groups, recoveries):
        if only in measure.__name__:
            yield from measure(engine, api)


def calls(engine: Any, api: Any) -> Iterator[tuple[str, float, str]]:
    @api.remote(resources={"far": 1})
    def small() -> bytes:
        return b"ok"

    @api.remote(resources={"far": 1}, num_cpus=0)
    class Actor:
        def small(self) -> bytes:
            return b"ok"

    def one(call: Callable[[], Any]) -> int:
        api.get(call())
        return 1

    def many(call: Callable[[], Any]) -> int:
        api.get([call() for _ in range(1000)])
        return 1000

    actor = Actor.remote()
    for name, call in (("tasks", small.remote), ("actor calls", actor.small.remote)):
        yield f"{name} on another node, one by one", rate(lambda c=call: one(c)), "1/s"  # type: ignore[misc]
        yield f"{name} on another node, 1,000 at once", rate(lambda c=call: many(c)), "1/s"  # type: ignore[misc]


def actors(engine: Any, api: Any) -> Iterator[tuple[str, float, str]]:
    @api.remote(resources={"far": 1}, num_cpus=0)
    class Actor:
        def small(self) -> bytes:
            return b"ok"

    begun, count = time.perf_counter(), 20
    made = [Actor.remote() for _ in range(count)]
    api.get([actor.small.remote() for actor in made])
    yield f"{count} actors on another node, made and called", count / (time.perf_counter() - begun), "1/s"
    for actor in made:
        api.kill(actor)


def transfers(engine: Any, api: Any) -> Iterator[tuple[str, float, str]]:
    import numpy

    @api.remote(resources={"far": 1}, num_cpus=0)
    def make(size: int, number: int) -> Any:
        return numpy.full(size, number, numpy.uint8)

    @api.remote(num_cpus=0)
    def look(value: Any) -> int:
        return int(value[-1])

    speeds = []
    for number in range(4):  # the first touches memory that nobody has touched
        value = make.remote(GIGABYTE, number)
        api.wait([value], fetch_local=False)
        begun = time.perf_counter()
        assert api.get(value)[-1] == number
        speeds.append(GIGABYTE / (time.perf_counter() - begun) / 1e9)
        del value
        time.sleep(0.3)  # it is deleted on both nodes meanwhile
    yield "1 GB from another node", sorted(speeds[1:])[1], "GB/s"
    words = [f"leaf{number}" for number in range(4)]
    for word in words:
        engine.add(1, word, GIGABYTE)
    value = api.put(numpy.ones(500_000_000, numpy.uint8))
    looks = [look.options(resources={word: 1}) for word in words]
    api.get([one.remote(numpy.ones(10, numpy.uint8)) for one in looks])
    begun = time.perf_counter()
    assert api.get([one.remote(value) for one in looks]) == [1] * 4
    yield "500 MB to 4 nodes", time.perf_counter() - begun, "s"


def groups(engine: Any, api: Any) -> Iterator[tuple[str, float, str]]:
    def one() -> int:
        group = engine.group([{"far": 1}, {"far": 1}])
        api.get(group.ready())
        engine.remove_group(group)
        return 1

    yield "placement groups made, ready and removed", rate(one), "1/s"


def recoveries(engine: Any, api: Any) -> Iterator[tuple[str, float, str]]:
    @api.remote(resources={"spare": 1}, num_cpus=0, max_retries=3)
    def wait(path: str, seconds: float) -> float:
        with open(path, "a") as file:
            file.write("ran\n")
        if os.path.getsize(path) == len("ran\n"):
            time.sleep(seconds)
        return time.time()

    @api.remote(resources={"spare": 1}, num_cpus=0, max_restarts=1, max_task_retries=1)
    class Actor:
        def pid(self) -> int:
            return os.getpid()

    first = engine.add(1, "spare", GIGABYTE)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "notes")
        task, actor = wait.remote(path, 60), Actor.remote()
        old = api.get(actor.pid.remote())
        while not os.path.exists(path):
            time.sleep(0.01)
        engine.add(1, "spare", GIGABYTE)
        killed = time.time()
        engine.kill(first)
        answered = time_of_another(api, actor, old)
        yield "a node dies: its task is done elsewhere", api.get(task) - killed, "s"
        yield "a node dies: its actor answers elsewhere", answered - killed, "s"


def time_of_another(api: Any, actor: Any, old: int) -> float:
    """Return when an actor answered from another process than `old`, which may go on for a while."""
    while True:
        try:
            if api.get(actor.pid.remote()) != old:
                return time.time()
        except api.exceptions.ActorUnavailableError:
            pass
        time.sleep(0.01)


def measure(python: str, engine: str, only: str) -> dict[str, tuple[float, str]]:
    """Run the program in a process of its own and return its rows."""
    with tempfile.NamedTemporaryFile("r") as out:
        command = [python, str(Path(__file__)), "--engine", engine, "--out", out.name, "--only", only]
        environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
        if engine == "kernel":
            environment["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
        subprocess.run(command, check=True, env=environment)
        return {name: (value, unit) for name, value, unit in json.load(out)}


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure several nodes on this machine.")
    parser.add_argument("--compare", metavar="PYTHON", help="a Python that has Ray")
    parser.add_argument("--only", default="", help="a part of: calls, actors, transfers, groups, recoveries")
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.engine:
        engine = {"kernel": Kernel, "ray": Ray}[given.engine]()
        found = list(rows(engine, given.only))
        engine.close()
        Path(given.out).write_text(json.dumps(found))
        return 0
    ours = measure(sys.executable, "kernel", given.only)
    theirs = measure(given.compare, "ray", given.only) if given.compare else {}
    for name, (value, unit) in ours.items():
        line = f"{name:45s} {value:12,.3f} {unit:5s}"
        if name in theirs:
            other = theirs[name][0]
            line += f" Ray {other:12,.3f}  {(other / value if unit == 's' else value / other):8.1f}x"
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())

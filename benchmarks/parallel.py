"""The parallel helpers beside the standard library (and loky), and with `--compare PYTHON` beside Ray in that Python.

python -m benchmarks.parallel [--compare PYTHON] [--only WORD] [--rounds N]

The same steps run on each engine in a process of its own, with two workers, round after round in turn; medians are
shown. Figures depend on the machine: ratios count.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SECONDS = 1.0
WORKERS = 2
MANY = 1000
Row = tuple[str, float, str]


def square(x: int) -> int:
    """Return the square: as little work as a function can be."""
    return x * x


def last(array: Any, x: int) -> float:
    """Look at an array."""
    return float(array[-1]) + x


class Standard:
    """What Python and joblib bring themselves."""

    def pool(self) -> Any:
        import multiprocessing

        return multiprocessing.Pool(WORKERS)

    def executor(self) -> Any:
        from concurrent.futures import ProcessPoolExecutor

        return ProcessPoolExecutor(WORKERS)

    def joblib(self) -> str:
        return "loky"

    def close(self) -> None:
        """Nothing stays."""


class Kernel:
    """The same from kernel."""

    def __init__(self) -> None:
        import kernel

        self.api = kernel
        kernel.init(num_cpus=WORKERS, log_to_driver=False)

    def pool(self) -> Any:
        from kernel.parallel.multiprocessing import Pool

        return Pool(WORKERS)

    def executor(self) -> Any:
        from kernel.parallel import KernelExecutor

        return KernelExecutor(WORKERS)

    def joblib(self) -> str:
        from kernel.parallel.joblib import register_kernel

        register_kernel()
        return "kernel"

    def actor_pool(self, actors: list[Any]) -> Any:
        from kernel.parallel import ActorPool

        return ActorPool(actors)

    def queue(self) -> Any:
        from kernel.parallel import Queue

        return Queue()

    def close(self) -> None:
        self.api.shutdown()


class Ray:
    """The same from Ray."""

    def __init__(self) -> None:
        import ray

        self.api = ray
        ray.init(num_cpus=4 * WORKERS, logging_level="error", log_to_driver=False)

    def pool(self) -> Any:
        from ray.util.multiprocessing import Pool

        return Pool(WORKERS)

    def actor_pool(self, actors: list[Any]) -> Any:
        from ray.util import ActorPool

        return ActorPool(actors)

    def queue(self) -> Any:
        from ray.util.queue import Queue

        return Queue()

    def close(self) -> None:
        self.api.shutdown()


def rate(step: Callable[[], object], count: int = 1) -> float:
    """Return how many things a second are done by `step()`, which does `count`: the best of some laps."""
    step()
    best, end = 0.0, time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        begun, laps = time.perf_counter(), 0
        while (spent := time.perf_counter() - begun) < SECONDS / 10:
            step()
            laps += 1
        best = max(best, laps * count / spent)
    return best


def pools(engine: Any) -> Iterator[Row]:
    """Pool: start, maps and calls."""
    with engine.pool() as pool:  # what is imported for the first one is not measured
        pool.map(square, range(WORKERS))
    begun = time.perf_counter()
    pool = engine.pool()
    pool.map(square, range(WORKERS))
    yield f"Pool({WORKERS}) made and used", time.perf_counter() - begun, "s"
    some, more = list(range(MANY)), list(range(100 * MANY))
    yield "Pool.map, 10 items", rate(lambda: pool.map(square, some[:10]), 10), "1/s"
    yield "Pool.map, 1,000 items", rate(lambda: pool.map(square, some), MANY), "1/s"
    yield "Pool.map, 100,000 items", rate(lambda: pool.map(square, more), 100 * MANY), "1/s"
    yield "Pool.map, 1,000 items, chunksize=1", rate(lambda: pool.map(square, some, chunksize=1), MANY), "1/s"
    yield "Pool.imap, 1,000 items", rate(lambda: list(pool.imap(square, some)), MANY), "1/s"
    yield "Pool.apply, one by one", rate(lambda: pool.apply(square, (1,))), "1/s"

    def calls() -> None:
        for result in [pool.apply_async(square, (x,)) for x in some]:
            result.get()

    yield "Pool.apply_async, 1,000 at once", rate(calls, MANY), "1/s"
    pool.terminate()


def executors(engine: Any) -> Iterator[Row]:
    """Executor: many futures."""
    with engine.executor() as executor:

        def calls() -> None:
            for future in [executor.submit(square, x) for x in range(MANY)]:
                future.result()

        yield "Executor.submit, 1,000 at once", rate(calls, MANY), "1/s"
        yield "Executor.submit, one by one", rate(lambda: executor.submit(square, 1).result()), "1/s"


def backends(engine: Any) -> Iterator[Row]:
    """joblib: many small tasks, and an array that all of them look at."""
    import numpy
    from joblib import Parallel, delayed, parallel_config

    array = numpy.ones(1_000_000)
    with parallel_config(engine.joblib(), n_jobs=WORKERS):
        yield "joblib, 100 tasks", rate(lambda: Parallel()(delayed(square)(x) for x in range(100)), 100), "1/s"
        yield "joblib, 5,000 tasks", rate(lambda: Parallel()(delayed(square)(x) for x in range(5000)), 5000), "1/s"
        look = rate(lambda: Parallel()(delayed(last)(array, x) for x in range(200)), 200)
        yield "joblib, 200 tasks and an array of 8 MB", look, "1/s"


def actor_pools(engine: Any) -> Iterator[Row]:
    """ActorPool: ordered and not."""

    @engine.api.remote
    class Worker:
        def square(self, x: int) -> int:
            return x * x

    pool = engine.actor_pool([Worker.remote() for _ in range(WORKERS)])

    def call(actor: Any, x: int) -> Any:
        return actor.square.remote(x)

    yield "ActorPool.map, 1,000 items", rate(lambda: list(pool.map(call, range(MANY))), MANY), "1/s"
    yield "ActorPool.map_unordered, 1,000", rate(lambda: list(pool.map_unordered(call, range(MANY))), MANY), "1/s"


def queues(engine: Any) -> Iterator[Row]:
    """Queue: items through it, one by one and in batches."""
    queue = engine.queue()

    def one() -> None:
        queue.put(1)
        queue.get()

    def batch() -> None:
        queue.put_nowait_batch(list(range(MANY)))
        queue.get_nowait_batch(MANY)

    yield "Queue, put and get, one by one", rate(one), "1/s"
    yield "Queue, batches of 1,000", rate(batch, MANY), "1/s"


ENGINES = {"kernel": Kernel, "standard": Standard, "ray": Ray}
MEASURED = {
    "kernel": (pools, executors, backends, actor_pools, queues),
    "standard": (pools, executors, backends),
    "ray": (pools, actor_pools, queues),
}


def measure(python: str, engine: str, only: str) -> dict[str, tuple[float, str]]:
    """Run the rows of an engine in a fresh process; return name to (value, unit)."""
    print(f"measuring {engine}", file=sys.stderr, flush=True)
    with tempfile.NamedTemporaryFile() as out:
        command = [python, __file__, "--engine", engine, "--only", only, "--out", out.name]
        environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
        done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL)
        if done.returncode:
            raise SystemExit(f"{engine} could not be measured: {' '.join(command)} ended with {done.returncode}")
        return {name: (value, unit) for name, value, unit in json.loads(Path(out.name).read_text())}


def median(rounds: list[dict[str, tuple[float, str]]], name: str) -> float | None:
    """Return the median of a row, if it was measured."""
    values = [found[name][0] for found in rounds if name in found]
    return statistics.median(values) if values else None


def times(ours: float, theirs: float | None, unit: str) -> str:
    """Return how many times better ours is, in words for a table."""
    if theirs is None:
        return f"{'':14s} {'':8s}"
    return f"{theirs:14,.4g} {(theirs / ours if unit == 's' else ours / theirs):7.2f}x"


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure the parallel helpers.")
    parser.add_argument("--compare", metavar="PYTHON", help="a Python that has Ray")
    parser.add_argument("--only", default="", help="a part of: pools, executors, backends, actor_pools, queues")
    parser.add_argument("--rounds", type=int, default=1, help="repeat, and show medians (default: 1)")
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.engine:
        engine: Any = ENGINES[given.engine]()
        parts = [part for part in MEASURED[given.engine] if given.only in part.__name__]
        found = [row for part in parts for row in part(engine)]
        engine.close()
        Path(given.out).write_text(json.dumps(found))
        return 0
    rounds: dict[str, list[dict[str, tuple[float, str]]]] = {"kernel": [], "standard": [], "ray": []}
    for _ in range(given.rounds):
        for name in ("standard", "kernel"):
            rounds[name].append(measure(sys.executable, name, given.only))
        if given.compare:
            rounds["ray"].append(measure(given.compare, "ray", given.only))
    print(f"{'':42s} {'kernel':>14s} {'':4s} {'standard':>14s} {'':8s} {'Ray':>14s}")
    for name, (_, unit) in rounds["kernel"][0].items():
        ours = median(rounds["kernel"], name) or 0.0
        standard, ray = median(rounds["standard"], name), median(rounds["ray"], name)
        print(f"{name:42s} {ours:14,.4g} {unit:4s} {times(ours, standard, unit)} {times(ours, ray, unit)}".rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Parallel iterators and collective operations, and, with `--compare PYTHON`, Ray's in that Python in turn.

python -m benchmarks.iterators [--compare PYTHON] [--torch] [--only WORD]

The same program reads iterators on both. Beside allreduce stand torch.distributed's gloo in bare processes (`--torch`,
where torch is installed) and Ray's, where its Python has what that needs. Figures depend on the machine: ratios count.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MEGABYTE = 1_000_000
SIZES = (8, 64_000, 4 * MEGABYTE, 100 * MEGABYTE)
MEMBERS = 2
Row = tuple[str, float, str]


def kernel_modules() -> tuple[Any, Any, Any]:
    """Return the library, its iterators and its collective operations: kernel's."""
    import kernel_parallel.collective
    import kernel_parallel.iterators

    import kernel

    kernel.init(num_cpus=2)
    return kernel, kernel_parallel.iterators, kernel_parallel.collective


def ray_modules() -> tuple[Any, Any, Any]:
    """Return the library, its iterators and its collective operations: Ray's."""
    import ray
    import ray.util.iter

    ray.init(num_cpus=2, logging_level="error", log_to_driver=False)
    try:
        from ray.util import collective
    except ImportError:
        collective = None
    return ray, ray.util.iter, collective


def rows(engine: str, only: str) -> Iterator[Row]:
    """Measure everything whose name contains `only`."""
    api, iterators, collective = {"kernel": kernel_modules, "ray": ray_modules}[engine]()
    if only in "iterators":
        yield from iterator_rows(engine, iterators)
    if only in "collective":
        yield from collective_rows(engine, api, collective)
    api.shutdown()


def iterator_rows(engine: str, iterators: Any) -> Iterator[Row]:
    """Measure items per second, of two shards."""
    counts = {"kernel": 10_000, "ray": 2_000}
    count, many = counts[engine], 100 * counts[engine]
    for label, read, number in (
        ("numbers, gather_sync", lambda n: plain(iterators, n).gather_sync(), many if engine == "kernel" else count),
        ("numbers, gather_async", lambda n: plain(iterators, n).gather_async(), many if engine == "kernel" else count),
        ("a function, gather_sync", lambda n: applied(iterators, n).gather_sync(), count),
        ("a function, gather_async", lambda n: applied(iterators, n).gather_async(), count),
        ("a function, gather_async, 8 at once", lambda n: applied(iterators, n).gather_async(num_async=8), count),
        ("a function, gather_async, batch_ms=5", lambda n: applied(iterators, n).gather_async(batch_ms=5), many),
        ("a function, batches of 100", lambda n: applied(iterators, n).batch(100).gather_async().flatten(), many),
        ("a function, repartition to 2", lambda n: applied(iterators, n).repartition(2).gather_sync(), count),
    ):
        yield label, items_per_second(read, number), "items/s"
    if engine == "kernel":
        ahead = items_per_second(lambda n: applied(iterators, n).gather_sync(prefetch=256), many)
        yield "a function, gather_sync, prefetch=256", ahead, "items/s"


def plain(iterators: Any, count: int) -> Any:
    """Return numbers: no code of users runs in the shards."""
    return iterators.from_range(count, num_shards=2)


def applied(iterators: Any, count: int) -> Any:
    """Return numbers that a function was applied to."""
    return iterators.from_range(count, num_shards=2).for_each(lambda x: x + 1)


def items_per_second(read: Callable[[int], Any], count: int) -> float:
    """Return how many items a second come out of `read(count)`, once the first is there."""
    items = read(count)
    next(items)
    begun = time.perf_counter()
    found = sum(1 for _ in items) + 1
    assert found == count, f"{found} items of {count}"
    return count / (time.perf_counter() - begun)


def collective_rows(engine: str, api: Any, collective: Any) -> Iterator[Row]:
    """Measure allreduce between two actors."""

    @api.remote(num_cpus=0)
    class Member:
        def join(self, rank: int, backend: str) -> None:
            collective.init_collective_group(MEMBERS, rank, backend, "bench")

        def measure(self, size: int) -> float:
            import numpy

            data = numpy.zeros(max(1, size // 4), numpy.float32)
            return seconds_each(lambda: collective.allreduce(data, "bench"), size)

    members = [Member.remote() for _ in range(MEMBERS)]
    try:
        backend = "numpy" if engine == "kernel" else "gloo"
        api.get([member.join.remote(rank, backend) for rank, member in enumerate(members)])
        for size in SIZES:
            yield from bandwidth_row("", size, max(api.get([member.measure.remote(size) for member in members])))
    except Exception as error:
        if engine == "kernel":
            raise
        print(f"Ray's allreduce could not be had: {type(error).__name__}", file=sys.stderr)


def bandwidth_row(where: str, size: int, seconds: float) -> Iterator[Row]:
    """Yield what one allreduce took: microseconds if small, gigabytes a second if large."""
    if size < MEGABYTE:
        yield f"allreduce of {size:,} bytes{where}", 1e6 * seconds, "us"
    else:
        yield f"allreduce of {size // MEGABYTE:,} MB{where}", size / seconds / 1e9, "GB/s"


def seconds_each(step: Callable[[], Any], size: int) -> float:
    """Return how long a step takes, on the average of some."""
    step()
    times = max(4, min(300, 100 * MEGABYTE // (size + 300_000)))
    begun = time.perf_counter()
    for _ in range(times):
        step()
    return (time.perf_counter() - begun) / times


# -- torch, in bare processes ------------------------------------------------------------------------------------------


def gloo_rows() -> Iterator[Row]:
    """Measure allreduce of torch.distributed between two processes with nothing around them."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    processes = [context.Process(target=gloo_member, args=(rank, port, answers)) for rank in range(MEMBERS)]
    for process in processes:
        process.start()
    found: dict[int, float] = {}
    for _ in range(MEMBERS * len(SIZES)):
        size, seconds = answers.get(timeout=300)
        found[size] = max(found.get(size, 0.0), seconds)
    for process in processes:
        process.join()
    for size in SIZES:
        yield from bandwidth_row("", size, found[size])


def gloo_member(rank: int, port: int, answers: Any) -> None:
    """Be one of the two."""
    import torch

    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{port}"
    torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=MEMBERS)
    for size in SIZES:
        data = torch.zeros(max(1, size // 4))
        answers.put((size, seconds_each(lambda data=data: torch.distributed.all_reduce(data), size)))  # type: ignore[misc]
    torch.distributed.destroy_process_group()


# -- the table ---------------------------------------------------------------------------------------------------------


def measure(python: str, engine: str, only: str) -> dict[str, tuple[float, str]]:
    """Run the program in a process of its own and return its rows."""
    with tempfile.NamedTemporaryFile("r") as out:
        command = [python, str(Path(__file__)), "--engine", engine, "--out", out.name, "--only", only]
        environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONWARNINGS": "ignore"}
        if engine == "kernel":
            root = Path(__file__).resolve().parents[1]
            environment["PYTHONPATH"] = os.pathsep.join([str(root), str(root / "plugins" / "parallel")])
        subprocess.run(command, check=True, env=environment)
        return {name: (value, unit) for name, value, unit in json.load(out)}


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure parallel iterators and collective operations.")
    parser.add_argument("--compare", metavar="PYTHON", help="a Python that has Ray")
    parser.add_argument("--torch", action="store_true", help="measure torch.distributed in this Python, too")
    parser.add_argument("--only", default="", help="a part of: iterators, collective")
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.engine:
        Path(given.out).write_text(json.dumps(list(rows(given.engine, given.only))))
        return 0
    ours = measure(sys.executable, "kernel", given.only)
    others = {"Ray": measure(given.compare, "ray", given.only)} if given.compare else {}
    if given.torch and given.only in "collective":
        others["gloo"] = {name: (value, unit) for name, value, unit in gloo_rows()}
    for name, (value, unit) in ours.items():
        line = f"{name:40s} {value:13,.2f} {unit:8s}"
        for other, found in others.items():
            if name in found:
                theirs = found[name][0]
                line += f" {other} {theirs:11,.2f} {(theirs / value if unit == 'us' else value / theirs):8.1f}x"
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())

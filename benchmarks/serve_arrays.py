"""Large arguments and results of handle calls, beside plain actor calls, and beside Ray Serve.

python -m benchmarks.serve_arrays [--compare PYTHON] [--megabytes 0.1 1 10 100 500] [--seconds S]

A float64 array goes to a replica on the same node, whose answer is that array plus nothing (`echo`), one number of it
(`there`), or an array that it has (`back`). Milliseconds a call; the median of as many calls as there is time for.
`--compare` is the Python of an environment with ray[serve].
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SIZES = [0.1, 0.25, 0.5, 1.0, 2.0, 10.0, 100.0, 500.0]


class Arrays:
    """What a replica, or an actor, does with arrays."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}

    async def echo(self, array: Any) -> Any:
        """Return the array."""
        return array

    async def there(self, array: Any) -> float:
        """Return one number of it."""
        return float(array[-1])

    async def back(self, number: int) -> Any:
        """Return an array of so many floats; it is made once."""
        if number not in self._made:
            self._made = {number: np.ones(number)}
        return self._made[number]


def per_call(call: Callable[[], Any], seconds: float) -> float:
    """Return the median of a call in milliseconds."""
    call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        begun = time.perf_counter()
        call()
        times.append((time.perf_counter() - begun) * 1e3)
    return statistics.median(times)


def ways(engine: str) -> dict[str, Callable[[str, Any], Any]]:
    """Return functions that call a method and return its result, by name."""
    if engine == "ray":
        import ray as library
        from ray import serve

        library.init(num_cpus=4, object_store_memory=4 << 30, log_to_driver=False)
    else:
        import kernel as library  # type: ignore[no-redef]
        from kernel import serve  # type: ignore[no-redef]

        library.init(num_cpus=4, object_store_memory=4 << 30, log_to_driver=False)
    application = serve.deployment(max_ongoing_requests=100)(Arrays).bind()
    handle = serve.run(application, route_prefix=None)
    actor = library.remote(Arrays).remote()
    return {
        "handle": lambda method, value: getattr(handle, method).remote(value).result(),
        "actor": lambda method, value: library.get(getattr(actor, method).remote(value)),
    }


def measure(engine: str, megabytes: list[float], seconds: float) -> None:
    """Print a line of JSON for each row."""
    for name, way in ways(engine).items():
        for size in megabytes:
            number = int(size * 1e6) // 8
            array = np.ones(number)
            for method, value in (("there", array), ("back", number), ("echo", array)):
                found = per_call(lambda: way(method, value), seconds)  # noqa: B023
                print(json.dumps([f"{engine} {name}", method, size, round(found, 3)]), flush=True)
    os._exit(0)  # what Ray still has to do is not what is measured


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", help="the Python of an environment with ray[serve]")
    parser.add_argument("--megabytes", type=float, nargs="*", default=SIZES)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.engine:
        measure(given.engine, given.megabytes, given.seconds)
    engines = {"kernel": sys.executable}
    if given.compare:
        engines["ray"] = given.compare
    table: dict[tuple[str, float], dict[str, float]] = {}
    for engine, python in engines.items():
        command = [python, "-m", "benchmarks.serve_arrays", "--engine", engine, "--seconds", str(given.seconds)]
        command += ["--megabytes", *map(str, given.megabytes)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        printed = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        for line in printed.stdout.splitlines():
            if line.startswith("["):
                way, method, size, found = json.loads(line)
                table.setdefault((method, size), {})[way] = found
    columns = list(dict.fromkeys(way for cells in table.values() for way in cells))
    print("| ms a call | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for (method, size), cells in sorted(table.items()):
        print(f"| {method}, {size:g} MB | " + " | ".join(f"{cells[each]:,.4g}" for each in columns) + " |")


if __name__ == "__main__":
    main()

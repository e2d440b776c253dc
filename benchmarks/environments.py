"""How soon workers start in an environment that is there already, and how often one is built.

python -m benchmarks.environments [--rounds 15] [--json]

A row is the time from `.remote()` of an actor, whose process is new, to the result of its first method: *first* of the
first actor, which waits until the environment is built, *again* the median of the others. At last 50 tasks ask at once
for an environment that is not there: one build serves them all. The exit code is 1 where there were more, or where
wheels of one name and other bytes were taken for the same.

No index of packages is asked: pip and uv install wheels that this program makes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kernel
from plugins.environment_pip.tests.wheels import make_wheel

PACKAGE = "benchmark_package"
AT_ONCE = 50


@kernel.remote
class Probe:
    """An actor in an environment."""

    def look(self) -> str:
        """Return which version of the package it has, "" without it."""
        return found_version()


@kernel.remote(num_cpus=0.1)
def look() -> str:
    """Return which version of the package it has, "" without it."""
    return found_version()


def found_version() -> str:
    """Return the version of the package of wheels that is installed here, "" without it."""
    try:
        import benchmark_package  # type: ignore[import-not-found]
    except ImportError:
        return ""
    return str(benchmark_package.VERSION)


def main() -> int:
    """Measure, print the rows, and return the exit code."""
    parser = argparse.ArgumentParser(description="Time the start of workers in environments that are there already.")
    parser.add_argument("--rounds", type=int, default=15, help="how many actors are started for each row")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for version in ("1.0", "2.0", "3.0"):
            make_wheel(Path(folder), PACKAGE, version, {f"{PACKAGE}.py": f"VERSION = {version!r}\n"})
        local = {"NO_INDEX": "1", "FIND_LINKS": folder}
        os.environ.update({f"{tool}_{name}": text for tool in ("PIP", "UV") for name, text in local.items()})
        with kernel.init(num_cpus=8, logging_level="error") as session:
            rows = {name: starts(env, arguments.rounds) for name, env in ENVIRONMENTS.items()}
            counts = built_for_many(session["session_dir"]) | built_for_other_bytes(Path(folder))
    show(rows, counts, as_json=arguments.json)
    return int(counts != EXPECTED)


ENVIRONMENTS: Mapping[str, Mapping[str, Any]] = {
    "none": {},
    "env_vars": {"env_vars": {"GREETING": "hello"}},
    "pip": {"pip": [f"{PACKAGE}==1.0"]},
    "uv": {"uv": [f"{PACKAGE}==2.0"]},
    "py_executable": {"py_executable": [sys.executable, "-X", "utf8"]},
}

EXPECTED = {f"builds for {AT_ONCE} tasks at once": 1, "wheels of one name that were told apart": 2}


def starts(environment: Mapping[str, Any], rounds: int) -> tuple[float, float]:
    """Return the seconds of the first actor in an environment, and the median of as many more as there are rounds."""
    seconds = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        actor = Probe.options(runtime_env=environment).remote()
        kernel.get(actor.look.remote())
        seconds.append(time.perf_counter() - began)
        kernel.kill(actor)
    return seconds[0], statistics.median(seconds[1:])


def built_for_many(session: str) -> dict[str, int]:
    """Start many tasks at once in a new environment, and return how often it was built."""
    before = len(os.listdir(os.path.join(session, "environments")))
    task = look.options(runtime_env={"uv": [f"{PACKAGE}==3.0"]})
    assert set(kernel.get([task.remote() for _ in range(AT_ONCE)])) == {"3.0"}
    return {f"builds for {AT_ONCE} tasks at once": len(os.listdir(os.path.join(session, "environments"))) - before}


def built_for_other_bytes(folder: Path) -> dict[str, int]:
    """Ask for two wheels of one name and version with other bytes; return how many different ones were had."""
    found = set()
    for text in ("one", "another"):
        wheel = make_wheel(folder / text, PACKAGE, "4.0", {f"{PACKAGE}.py": f"VERSION = {text!r}\n"})
        found.add(kernel.get(look.options(runtime_env={"pip": [str(wheel)]}).remote()))
    return {"wheels of one name that were told apart": len(found)}


def show(rows: Mapping[str, tuple[float, float]], counts: Mapping[str, int], *, as_json: bool) -> None:
    """Print what was measured."""
    if as_json:
        print(json.dumps({"seconds": rows, "counts": counts}))
        return
    print(f"{'environment':<16}{'first ms':>10}{'again ms':>10}")
    for name, (first, again) in rows.items():
        print(f"{name:<16}{first * 1e3:>10.1f}{again * 1e3:>10.1f}")
    for name, count in counts.items():
        print(f"{name}: {count} (expected: {EXPECTED[name]})")


if __name__ == "__main__":
    raise SystemExit(main())

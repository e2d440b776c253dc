"""A guard against gross slowdowns: kernel beside bare CPython, on the same machine in the same seconds.

The shares asked for are a small part of what is usual, because tests run on machines that are small, shared and
busy. Each is tried several times and the best counts; `python -m benchmarks` is for measuring.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

import kernel
from benchmarks import floor, rows

SECONDS = 0.3
ATTEMPTS = 6


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    """One session for all measurements, with room for the arrays."""
    kernel.shutdown()
    with kernel.init(num_cpus=2, object_store_memory=1 << 30, log_to_driver=False):
        yield


def program(name: str) -> rows.Row:
    """Return a row of the benchmark by its name."""
    return next(row for row in rows.ROWS if row.name == name)


def best_share(name: str, enough: float) -> float:
    """Return kernel's rate as a share of the floor's: the best of some attempts, or the first that is enough."""
    row, best = program(name), 0.0
    lap, measure_floor = row.make(kernel), floor.FLOORS[row.floor]
    for _ in range(ATTEMPTS):
        best = max(best, rows.best_rate(lap, SECONDS) / measure_floor(SECONDS))
        if best >= enough:
            break
    return best


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("tasks, one by one", 0.10),
        ("tasks, 1,000 at once", 0.03),
        ("actor calls, one by one", 0.10),
        ("actor calls, 1,000 at once", 0.03),
        ("coroutine calls, 1,000 at once", 0.02),
        ("put of 100 MB", 0.30),
    ],
)
def test_rates_are_a_fair_share_of_the_floor(name: str, least: float) -> None:
    share = best_share(name, least)
    assert share >= least, f"{name}: {share:.3f} of what bare CPython does, at least {least} is asked for"


def test_a_get_in_place_does_not_depend_on_the_size() -> None:
    rate = rows.best_rate(program("get of 100 MB, in place").make(kernel), SECONDS)
    assert rate > 1000, f"{rate:.0f} gets of 100 MB a second: that is the speed of a copy"


def seconds_of(what: Callable[[], object]) -> float:
    """Return how long a call takes."""
    started = time.perf_counter()
    what()
    return time.perf_counter() - started


def test_importing_costs_little_more_than_python() -> None:
    def run(code: str) -> float:
        """Return the processor time of a program, which others on this machine lengthen little."""
        before = os.times()
        subprocess.run([sys.executable, "-c", code], check=True)
        after = os.times()
        return after.children_user - before.children_user + after.children_system - before.children_system

    bare, ours = (min(run(code) for _ in range(5)) for code in ("pass", "import kernel"))
    assert ours - bare < 0.3, f"`import kernel` takes {ours - bare:.2f} s more than starting Python"


def test_the_cost_of_a_task_does_not_grow_with_the_queue() -> None:
    def per_task(count: int) -> float:
        task = kernel.remote(rows.answer)
        return seconds_of(lambda: kernel.get([task.remote() for _ in range(count)])) / count

    per_task(2000)
    ratio = min(per_task(20_000) / per_task(2000) for _ in range(3))
    assert ratio < 3, f"a task costs {ratio:.1f} times as much with 20,000 waiting as with 2,000"

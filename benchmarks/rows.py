"""The programs that are measured. They use what kernel and Ray have in common, so either can run them.

    python benchmarks/rows.py --engine kernel --seconds 1 --only task

A program is made once (`@row`), and returns a function that does one lap and says how much work that was. The
best of three windows counts: on a shared machine the others measure the neighbours.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Lap = Callable[[], float]


@dataclass(frozen=True)
class Row:
    """One line of the table. `floor` names the measurement of `floor.py` that it is compared with."""

    name: str
    unit: str
    floor: str
    make: Callable[[Any], Lap]


ROWS: list[Row] = []


def row(name: str, unit: str = "calls/s", floor: str = "") -> Callable[[Callable[[Any], Lap]], Callable[[Any], Lap]]:
    """Add a program to the table."""

    def add(make: Callable[[Any], Lap]) -> Callable[[Any], Lap]:
        ROWS.append(Row(name, unit, floor, make))
        return make

    return add


def answer(*arguments: Any) -> bytes:
    """What most tasks do."""
    return b"ok"


class Plain:
    """What most actors are."""

    def answer(self, *arguments: Any) -> bytes:
        """Return at once."""
        return b"ok"

    def call_others(self, engine: str, others: list[Any], count: int) -> int:
        """Call other actors, `count` times each, and wait."""
        get = importlib.import_module(engine).get
        return len(get([other.answer.remote() for other in others for _ in range(count)]))


class Async:
    """An actor with coroutines."""

    async def answer(self) -> bytes:
        """Return at once."""
        return b"ok"


def actor(engine: Any, cls: type = Plain, **options: Any) -> Any:
    """Start an actor that takes no CPU, and wait for it."""
    handle = engine.remote(num_cpus=0, **options)(cls).remote()
    engine.get(handle.answer.remote())
    return handle


def one_by_one(engine: Any, call: Callable[[], Any]) -> Lap:
    """A lap of one call."""

    def lap() -> float:
        engine.get(call())
        return 1

    return lap


def many_at_once(engine: Any, call: Callable[[], Any], count: int = 1000) -> Lap:
    """A lap of `count` calls, all submitted before the first result is asked for."""

    def lap() -> float:
        engine.get([call() for _ in range(count)])
        return count

    return lap


# -- tasks -----------------------------------------------------------------------------------------------------------


@row("tasks, one by one", floor="call")
def _tasks_sync(engine: Any) -> Lap:
    return one_by_one(engine, engine.remote(answer).remote)


@row("tasks, 1,000 at once", floor="pipelined")
def _tasks_async(engine: Any) -> Lap:
    return many_at_once(engine, engine.remote(answer).remote)


@row("tasks, 20,000 at once", floor="pipelined")
def _tasks_queued(engine: Any) -> Lap:
    return many_at_once(engine, engine.remote(answer).remote, 20_000)


@row("tasks, chain of 100", floor="call")
def _tasks_chain(engine: Any) -> Lap:
    step = engine.remote(lambda x: x + 1)

    def lap() -> float:
        ref = step.remote(0)
        for _ in range(99):
            ref = step.remote(ref)
        assert engine.get(ref) == 100
        return 100

    return lap


@row("tasks, tree of 255", "tasks/s")
def _tasks_tree(engine: Any) -> Lap:
    leaf = engine.remote(lambda: 1)
    join = engine.remote(lambda left, right: left + right + 1)

    def lap() -> float:
        level = [leaf.remote() for _ in range(128)]
        while len(level) > 1:
            level = [join.remote(level[i], level[i + 1]) for i in range(0, len(level), 2)]
        assert engine.get(level[0]) == 255
        return 255

    return lap


@row("tasks inside tasks", "tasks/s")
def _tasks_nested(engine: Any) -> Lap:
    name = engine.__name__
    inner = engine.remote(answer)

    def outer(inner: Any) -> int:
        return len(importlib.import_module(name).get([inner.remote() for _ in range(200)]))

    outer_task = engine.remote(outer)

    def lap() -> float:
        return float(engine.get(outer_task.remote(inner)))

    return lap


@row("task with 1,000 reference arguments", "refs/s")
def _many_arguments(engine: Any) -> Lap:
    count = engine.remote(lambda *values: len(values))

    def lap() -> float:
        return float(engine.get(count.remote(*[engine.put(i) for i in range(1000)])))

    return lap


@row("wait, first of 1,000", "refs/s")
def _wait(engine: Any) -> Lap:
    task = engine.remote(answer)

    def lap() -> float:
        waiting = [task.remote() for _ in range(1000)]
        while waiting:
            _, waiting = engine.wait(waiting)
        return 1000

    return lap


# -- actors ----------------------------------------------------------------------------------------------------------


@row("actor calls, one by one", floor="call")
def _actor_sync(engine: Any) -> Lap:
    return one_by_one(engine, actor(engine).answer.remote)


@row("actor calls, 1,000 at once", floor="pipelined")
def _actor_async(engine: Any) -> Lap:
    return many_at_once(engine, actor(engine).answer.remote)


@row("calls of an actor with 8 threads", floor="pipelined")
def _actor_threads(engine: Any) -> Lap:
    return many_at_once(engine, actor(engine, max_concurrency=8).answer.remote)


@row("coroutine calls, one by one", floor="call")
def _async_sync(engine: Any) -> Lap:
    return one_by_one(engine, actor(engine, Async).answer.remote)


@row("coroutine calls, 1,000 at once", floor="pipelined")
def _async_async(engine: Any) -> Lap:
    return many_at_once(engine, actor(engine, Async).answer.remote)


@row("actor calls, 2 callers to 2 actors", floor="pipelined")
def _actors_n_to_n(engine: Any) -> Lap:
    servers, callers = [actor(engine) for _ in range(2)], [actor(engine) for _ in range(2)]

    def lap() -> float:
        return float(sum(engine.get([c.call_others.remote(engine.__name__, servers, 500) for c in callers])))

    return lap


@row("actors started, called and killed", "actors/s")
def _actors_started(engine: Any) -> Lap:
    cls = engine.remote(num_cpus=0)(Plain)

    def lap() -> float:
        actors = [cls.remote() for _ in range(10)]
        engine.get([a.answer.remote() for a in actors])
        for a in actors:
            engine.kill(a)
        return 10

    return lap


# -- objects ---------------------------------------------------------------------------------------------------------


@row("put of a number", "puts/s")
def _put_small(engine: Any) -> Lap:
    def lap() -> float:
        for number in range(100):
            engine.put(number)
        return 100

    return lap


@row("get of a number", "gets/s")
def _get_small(engine: Any) -> Lap:
    ref = engine.put(5)

    def lap() -> float:
        for _ in range(100):
            engine.get(ref)
        return 100

    return lap


@row("put of 100 MB", "GB/s", floor="copy")
def _put_large(engine: Any) -> Lap:
    array = np.ones((100 << 20) // 8)

    def lap() -> float:
        engine.put(array)
        return array.nbytes / 1e9

    return lap


@row("put of 1 MB", "GB/s", floor="copy")
def _put_medium(engine: Any) -> Lap:
    array = np.ones((1 << 20) // 8)

    def lap() -> float:
        engine.put(array)
        return array.nbytes / 1e9

    return lap


@row("get of 100 MB, in place", "gets/s")
def _get_large(engine: Any) -> Lap:
    ref = engine.put(np.ones((100 << 20) // 8))
    return one_by_one(engine, lambda: ref)


@row("100 MB as an argument", "calls/s")
def _large_argument(engine: Any) -> Lap:
    ref = engine.put(np.ones((100 << 20) // 8))
    first = engine.remote(lambda array: float(array[0]))
    return one_by_one(engine, lambda: first.remote(ref))


@row("10 MB as a result", "GB/s")
def _large_result(engine: Any) -> Lap:
    make = engine.remote(lambda: np.ones((10 << 20) // 8))

    def lap() -> float:
        return engine.get(make.remote()).nbytes / 1e9

    return lap


# -- measuring -------------------------------------------------------------------------------------------------------


def best_rate(lap: Lap, seconds: float) -> float:
    """Return the best of three windows of `seconds / 3`, at least one lap each, after one lap to warm up."""
    lap()
    best = 0.0
    for _ in range(3):
        done, started = 0.0, time.perf_counter()
        while True:
            done += lap()
            spent = time.perf_counter() - started
            if spent >= seconds / 3:
                break
        best = max(best, done / spent)
    return best


def idle_size() -> dict[str, float]:
    """Return processes, threads and memory (MB, what is shared counted once) below this one."""
    own, families = os.getpid(), {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                families[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
    below, before = {own}, set()
    while below != before:
        before = set(below)
        below |= {pid for pid, parent in families.items() if parent in below}
    sizes = [size for size in map(_process_size, below - {own}) if size is not None]
    return {
        "idle session, processes": len(sizes),
        "idle session, threads": sum(threads for threads, _ in sizes),
        "idle session, memory": sum(kilobytes for _, kilobytes in sizes) / 1000,
    }


def _process_size(pid: int) -> tuple[int, int] | None:
    try:
        threads = len(os.listdir(f"/proc/{pid}/task"))
        with open(f"/proc/{pid}/smaps_rollup") as file:
            kilobytes = next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return None
    return threads, kilobytes


def measure(engine_name: str, seconds: float, only: str) -> list[tuple[str, float, str, str]]:
    """Run every row whose name contains `only`; return (name, value, unit, floor) for each."""
    started = time.perf_counter()
    engine = importlib.import_module(engine_name)
    imported = time.perf_counter() - started
    options = {"logging_level": "ERROR", "include_dashboard": False} if engine_name == "ray" else {}
    started = time.perf_counter()
    engine.init(num_cpus=2, **options)
    assert engine.get(engine.remote(answer).remote()) == b"ok"
    first = time.perf_counter() - started
    measured = [("import", imported, "s", ""), ("init to first result", first, "s", "")]
    units = {"idle session, memory": "MB"}
    measured += [(name, size, units.get(name, ""), "") for name, size in idle_size().items()]
    measured = [line for line in measured if only in line[0]]
    for program in ROWS:
        if only in program.name:
            print(f"  {program.name} ...", file=sys.stderr, flush=True)
            try:
                value = best_rate(program.make(engine), seconds)
            except Exception as error:
                # A row that fails reads nan, the others go on.
                print(f"  {program.name} failed: {type(error).__name__}: {error}", file=sys.stderr)
                value = float("nan")
            measured.append((program.name, value, program.unit, program.floor))
    started = time.perf_counter()
    engine.shutdown()
    if only in "shutdown":
        measured.append(("shutdown", time.perf_counter() - started, "s", ""))
    return measured


def main() -> int:
    """Measure one engine and print the rows as JSON."""
    parser = argparse.ArgumentParser(description="Measure one engine; print (name, value, unit, floor) as JSON.")
    parser.add_argument("--engine", default="kernel", choices=("kernel", "ray"))
    parser.add_argument("--seconds", type=float, default=1.0, help="how long to measure each row")
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.engine, arguments.seconds, arguments.only)))
    return 0


if __name__ == "__main__":
    sys.path[0] = os.getcwd()  # not this folder: its modules are not meant to be imported by their bare names
    sys.exit(main())

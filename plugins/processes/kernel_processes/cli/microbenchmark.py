"""Measure the rates of `kernel microbenchmark`: each measurement repeats one operation for a while.

They are in a module apart from the command, because workers import this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import kernel

_BATCH = 1000
_ARRAY_BYTES = 64 << 20


class Measurement(NamedTuple):
    """A rate of an operation, in `unit`."""

    name: str
    rate: float
    unit: str


@kernel.remote
def nothing(*arguments: Any) -> None:
    """Do nothing."""


@kernel.remote
class Idler:
    """An actor that does nothing."""

    def nothing(self) -> None:
        """Do nothing."""


@kernel.remote
class AsyncIdler:
    """An async actor that does nothing."""

    async def nothing(self) -> None:
        """Do nothing."""


def measure(seconds: float, begun: float, next_is: Callable[[str], None]) -> Iterator[Measurement]:
    """Yield one measurement after the other, each of about `seconds`; call `next_is(name)` before each.

    The session must have been started: `begun` (of `time.perf_counter()`) is when that began, for the first
    measurement.
    """
    kernel.get(nothing.remote())
    yield Measurement("start to first result", time.perf_counter() - begun, "s")
    for name, unit, once, prepare in _rows():
        next_is(name)
        state = prepare()
        once(state)  # The first run starts workers and sends them the code.
        done, begun = 0.0, time.perf_counter()
        while (spent := time.perf_counter() - begun) < seconds or not done:
            done += once(state)
        yield Measurement(name, done / spent, unit)


def _rows() -> list[tuple[str, str, Callable[[Any], float], Callable[[], Any]]]:
    """Return the measurements: name, unit, the operation, which returns how many units it did, and its preparation."""
    return [
        ("tasks, one after the other", "tasks/s", _task, lambda: None),
        ("tasks, 1,000 in flight", "tasks/s", _tasks, lambda: None),
        ("calls of an actor, one after the other", "calls/s", _call, Idler.remote),
        ("calls of an actor, 1,000 in flight", "calls/s", _calls, Idler.remote),
        ("calls of an async actor, 1,000 in flight", "calls/s", _calls, AsyncIdler.remote),
        ("new actors, one after the other", "actors/s", _actor, lambda: None),
        ("put of a small value", "puts/s", _put, lambda: None),
        ("get of a small value", "gets/s", _get, lambda: kernel.put(1)),
        ("wait for 1,000 ready references", "waits/s", _wait, lambda: [kernel.put(1) for _ in range(_BATCH)]),
        ("put of a 64 MiB array", "GB/s", _put_array, _array),
        ("task with a 64 MiB array as argument", "tasks/s", _array_task, lambda: kernel.put(_array())),
    ]


def _task(_: Any) -> float:
    kernel.get(nothing.remote())
    return 1


def _tasks(_: Any) -> float:
    kernel.get([nothing.remote() for _ in range(_BATCH)])
    return _BATCH


def _call(actor: Any) -> float:
    kernel.get(actor.nothing.remote())
    return 1


def _calls(actor: Any) -> float:
    kernel.get([actor.nothing.remote() for _ in range(_BATCH)])
    return _BATCH


def _actor(_: Any) -> float:
    kernel.get(Idler.remote().nothing.remote())
    return 1


def _put(_: Any) -> float:
    for _ in range(100):
        kernel.put(1)
    return 100


def _get(ref: Any) -> float:
    for _ in range(100):
        kernel.get(ref)
    return 100


def _wait(refs: Any) -> float:
    kernel.wait(refs, num_returns=len(refs))
    return 1


def _array() -> Any:
    import numpy

    return numpy.ones(_ARRAY_BYTES, dtype=numpy.uint8)


def _put_array(array: Any) -> float:
    kernel.put(array)
    return float(array.nbytes) / 1e9


def _array_task(ref: Any) -> float:
    kernel.get(nothing.remote(ref))
    return 1

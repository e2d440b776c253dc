"""Exceptions that come from outside, at random moments, into a program at work: `python -m benchmarks.interrupts`.

A timer's signal, a signal of another process and `PyThreadState_SetAsyncExc` each raise in the middle of `get`, `wait`,
`put`, submissions, calls of actors and streams: in the program, and in its tasks. After each, the same work must go on,
and every value must be right. The same `--seed` gives the same work and the same moments, as far as the machine does.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

import kernel

HANG_SECONDS = 60.0
"""How long nothing may come of the work before it counts as hung."""
LONGEST_SECONDS = 0.004
"""An interrupt comes this long after the work began, at most."""
_SENDER = """
import os, signal, sys, time
for line in sys.stdin:
    pid, seconds = line.split()
    time.sleep(float(seconds))
    os.kill(int(pid), signal.SIGUSR1)
"""


class TooLate(Exception):
    """What the interrupts raise."""


class Wrong(Exception):
    """A value is not what it must be, or nothing comes any more."""


# -- what interrupts ---------------------------------------------------------------------------------------------------


def _raise(number: int, frame: object) -> None:
    raise TooLate


class Alarm:
    """A signal handler that raises when a timer is up."""

    def __init__(self) -> None:
        self._before = signal.signal(signal.SIGALRM, _raise)

    def begin(self, seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def end(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    def close(self) -> None:
        signal.signal(signal.SIGALRM, self._before)


class Foreign:
    """A signal handler that raises when another process sends a signal."""

    def __init__(self) -> None:
        self._before = signal.signal(signal.SIGUSR1, _raise)
        self._sender = subprocess.Popen([sys.executable, "-c", _SENDER], stdin=subprocess.PIPE, text=True)

    def begin(self, seconds: float) -> None:
        assert self._sender.stdin is not None
        self._sender.stdin.write(f"{os.getpid()} {seconds}\n")
        self._sender.stdin.flush()

    def end(self) -> None:
        return

    def close(self) -> None:
        assert self._sender.stdin is not None
        self._sender.stdin.close()
        self._sender.wait()
        signal.signal(signal.SIGUSR1, self._before)


class Asynchronous:
    """An exception that another thread sets in this one."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._wanted = threading.Semaphore(0)
        self._seconds = 0.0
        self._open = True
        self._setter = threading.Thread(target=self._set, daemon=True)
        self._setter.start()

    def begin(self, seconds: float) -> None:
        self._seconds = seconds
        self._wanted.release()

    def end(self) -> None:
        return

    def close(self) -> None:
        self._open = False
        self._wanted.release()
        self._setter.join()

    def _set(self) -> None:
        while True:
            self._wanted.acquire()
            if not self._open:
                return
            time.sleep(self._seconds)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(TooLate))


KINDS: dict[str, Callable[[], Any]] = {"alarm": Alarm, "foreign": Foreign, "asynchronous": Asynchronous}


# -- the work ----------------------------------------------------------------------------------------------------------


@kernel.remote
def square(x: int) -> int:
    return x * x


@kernel.remote
def fill(value: int, size: int) -> np.ndarray:
    return np.full(size, value, np.int64)


@kernel.remote
def total(values: Any) -> int:
    return int(np.sum(values))


@kernel.remote
def count_to(n: int) -> Iterator[int]:
    yield from range(n)


@kernel.remote
def nest(x: int) -> int:
    return int(kernel.get(square.remote(x))) + 1


@kernel.remote(num_cpus=0)
class Ledger:
    """Notes what it is told, in the order in which it comes."""

    def __init__(self) -> None:
        self._noted: list[int] = []

    def note(self, number: int) -> int:
        self._noted.append(number)
        return number

    def noted(self) -> list[int]:
        return self._noted


def same(found: Any, expected: Any) -> None:
    """Raise Wrong unless two values are equal."""
    if found != expected:
        raise Wrong(f"expected {expected!r:.200}, got {found!r:.200}")


class Work:
    """Many kinds of work whose results are known. What an interrupt breaks off is looked at again afterwards."""

    def __init__(self, random: random.Random, ledger: Any) -> None:
        self._random = random
        self._ledger = ledger
        self._number = 0
        self._unread: list[tuple[Any, Any]] = []
        self._stream: Any = None
        self._items: list[Any] = []
        self.scenes = [
            self.get_one, self.get_many, self.wait, self.put_small, self.put_large, self.submit, self.pass_large,
            self.return_large, self.call, self.read_stream, self.nested,
        ]  # fmt: skip

    def go_on(self) -> None:
        """Do something more."""
        self._random.choice(self.scenes)()

    def look_again(self) -> None:
        """Read all that was begun and may not have been read to its end."""
        for ref, expected in self._unread:
            same(kernel.get(ref), expected)
        self._unread.clear()
        self._finish_stream()
        for scene in self.scenes:
            scene()
        self._finish_stream()
        noted = kernel.get(self._ledger.noted.remote())
        same(noted, sorted(set(noted)))

    def _keep(self, ref: Any, expected: Any) -> Any:
        self._unread.append((ref, expected))
        del self._unread[:-50]
        return ref

    def get_one(self) -> None:
        x = self._random.randrange(1000)
        same(kernel.get(self._keep(square.remote(x), x * x)), x * x)

    def get_many(self) -> None:
        refs = [self._keep(square.remote(x), x * x) for x in range(20)]
        same(kernel.get(refs), [x * x for x in range(20)])

    def wait(self) -> None:
        refs = [self._keep(square.remote(x), x * x) for x in range(5)]
        ready, others = kernel.wait(refs, num_returns=3)
        same((len(ready), len(others)), (3, 2))
        for x, ref in enumerate(refs):
            same(kernel.get(ref), x * x)

    def put_small(self) -> None:
        x = self._random.randrange(1000)
        same(kernel.get(self._keep(kernel.put({"x": x}), {"x": x})), {"x": x})

    def put_large(self) -> None:
        x = self._random.randrange(1000)
        ref = kernel.put(np.full(40_000, x, np.int64))
        value = kernel.get(ref)
        same((int(value[0]), int(value.sum())), (x, 40_000 * x))
        same(kernel.get(total.remote(ref)), 40_000 * x)

    def submit(self) -> None:
        for x in range(30):
            self._keep(square.remote(x), x * x)

    def pass_large(self) -> None:
        x = self._random.randrange(1000)
        same(kernel.get(self._keep(total.remote(np.full(40_000, x)), 40_000 * x)), 40_000 * x)

    def return_large(self) -> None:
        x = self._random.randrange(1000)
        value = kernel.get(fill.remote(x, 40_000))
        same((int(value[0]), int(value.sum())), (x, 40_000 * x))

    def call(self) -> None:
        self._number += 1
        number = self._number
        same(kernel.get(self._keep(self._ledger.note.remote(number), number)), number)

    def nested(self) -> None:
        x = self._random.randrange(1000)
        same(kernel.get(self._keep(nest.remote(x), x * x + 1)), x * x + 1)

    def read_stream(self) -> None:
        if self._stream is None:
            self._items = []
            self._stream = count_to.remote(20)
        for ref in self._stream:
            self._items.append(ref)
        self._finish_stream()

    def _finish_stream(self) -> None:
        if self._stream is None:
            return
        for ref in self._stream:
            self._items.append(ref)
        same(kernel.get(self._items), list(range(20)))
        self._stream = None


# -- the storm ---------------------------------------------------------------------------------------------------------


def storm(times: int, kind: str, seed: int, ledger: Any) -> int:
    """Interrupt work `times` times in this thread; return how many interrupts came amid it. Raises Wrong."""
    rng = random.Random(seed)
    work = Work(rng, ledger)
    interrupt = KINDS[kind]()
    struck = 0
    try:
        for _ in range(times):
            beats[threading.get_ident()] = time.monotonic()
            struck += _interrupt(work, interrupt, rng.uniform(0.00001, LONGEST_SECONDS))
            work.look_again()
    finally:
        beats.pop(threading.get_ident(), None)
        interrupt.close()
    return struck


def _interrupt(work: Work, interrupt: Any, seconds: float) -> int:
    deadline = time.monotonic() + HANG_SECONDS
    try:
        interrupt.begin(seconds)
        while time.monotonic() < deadline:
            work.go_on()
    except TooLate:
        return 1
    raise Wrong(f"an interrupt did not come within {HANG_SECONDS} s")


@kernel.remote(num_cpus=1, max_retries=0)
def storm_in_task(times: int, kind: str, seed: int, ledger: Any) -> int:
    """Do the same in a task."""
    with watched(f"{kind} in a task"):
        return storm(times, kind, seed, ledger)


@kernel.remote(num_cpus=1, max_concurrency=2)
class Threads:
    """Does the same in threads of an actor."""

    def storm(self, times: int, seed: int, ledger: Any) -> int:
        """Interrupt calls in a thread of this actor."""
        return storm(times, "asynchronous", seed, ledger)


beats: dict[int, float] = {}
"""When each thread has begun what it does now."""


@contextmanager
def watched(what: str) -> Iterator[None]:
    """End this process, showing where its threads are, when one of them does nothing for `HANG_SECONDS`."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.5):
            now = time.monotonic()
            if any(now - began > HANG_SECONDS for began in list(beats.values())):
                print(f"HANGS: {what}", file=sys.stderr, flush=True)
                faulthandler.dump_traceback(all_threads=True)
                os._exit(3)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def run(times: int, seed: int = 1, only: str = "") -> Counter[str]:
    """Interrupt a session `times` times in all; return how often each way came amid the work. Raises Wrong."""
    struck: Counter[str] = Counter()
    ways: dict[str, Callable[[int, int], int]] = {
        f"{kind} in {where}": run_way(kind, where)
        for where in ("the program", "a thread", "a task", "an actor's thread")
        for kind in KINDS
        if kind == "asynchronous" or where in ("the program", "a task")
    }
    ways = {name: way for name, way in ways.items() if only in name}
    with watched("the program"):
        for position, (name, way) in enumerate(ways.items()):
            share = times // len(ways) + (position < times % len(ways))
            struck[name] = way(share, seed + 1000 * position)
    return struck


def run_way(kind: str, where: str) -> Callable[[int, int], int]:
    """Return what interrupts `times` times with a `seed`."""

    def way(times: int, seed: int) -> int:
        ledger = Ledger.remote()
        if where == "a task":
            return int(kernel.get(storm_in_task.remote(times, kind, seed, ledger)))
        if where == "an actor's thread":
            return int(kernel.get(Threads.remote().storm.remote(times, seed, ledger)))
        if where == "the program":
            return storm(times, kind, seed, ledger)
        found: list[int | BaseException] = []

        def work() -> None:
            try:
                found.append(storm(times, kind, seed, ledger))
            except BaseException as error:
                found.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if isinstance(found[0], BaseException):
            raise found[0]
        return found[0]

    return way


def main(arguments: list[str] | None = None) -> int:
    """Run it and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=2000, help="interrupts in all (2000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only the ways with this word in their name")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    kernel.init(num_cpus=3)
    with suppress(KeyboardInterrupt):
        for name, count in run(given.times, given.seed, given.only).items():
            print(f"{name:34}{count:6,} interrupts amid the work, nothing lost")
    print(f"{time.monotonic() - began:.0f} s, seed {given.seed}")
    kernel.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())

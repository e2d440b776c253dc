"""A function that finds no idle thread gets a new one, and a thread without functions ends."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable

from kernel_spec.daemon_threads import DaemonThreads

NAME = "kernel-test-daemon"
SECONDS = 60.0


def holds_soon(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_functions_that_block_each_other_all_run() -> None:
    barrier = threading.Barrier(5)
    threads = DaemonThreads(NAME)

    for _ in range(4):
        threads.submit(lambda: barrier.wait(SECONDS))

    barrier.wait(SECONDS)  # raises unless all five are here
    assert not barrier.broken


def test_an_idle_thread_takes_the_next_function() -> None:
    threads, used, done = DaemonThreads(NAME, idle_s=SECONDS), [], threading.Semaphore(0)

    def work() -> None:
        used.append(threading.get_ident())
        done.release()

    for _ in range(3):
        threads.submit(work)
        assert done.acquire(timeout=SECONDS)
        assert holds_soon(lambda: threads._idle == 1)

    assert len(set(used)) == 1


def test_threads_are_daemons_and_end_when_they_have_been_idle() -> None:
    threads, seen = DaemonThreads(NAME, idle_s=0.01), []

    threads.submit(lambda: seen.append(threading.current_thread()))

    assert holds_soon(lambda: len(seen) == 1)
    assert seen[0].daemon
    assert holds_soon(lambda: not seen[0].is_alive())


def test_a_thread_keeps_no_function_that_has_ended() -> None:
    class Value:
        pass

    def hold(value: Value) -> Callable[[], object]:
        return lambda: value

    threads, value = DaemonThreads(NAME, idle_s=SECONDS), Value()
    gone = weakref.ref(value)
    threads.submit(hold(value))
    del value

    assert holds_soon(lambda: gc.collect() >= 0 and gone() is None)

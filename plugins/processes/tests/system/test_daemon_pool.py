"""Threads for calls that may hang: as few as are needed, and another for one that is left behind."""

from __future__ import annotations

import threading

from kernel.testing.faults import wait_until
from kernel_processes.system.daemon_pool import MOST_HANGING, DaemonPool

SECONDS = 120.0
"""How long anything may take: the machine may be busy."""


def test_threads_are_as_few_as_are_needed() -> None:
    threads = DaemonPool(2, "few", lambda: 0.0)
    ended: list[int] = []

    def names() -> int:
        return sum(thread.name == "few" for thread in threading.enumerate())

    assert names() == 0
    threads.begin(lambda: ended.append(1))
    wait_until(lambda: ended == [1], SECONDS, "the first job")
    assert names() == 1
    for number in range(2, 50):
        threads.begin(lambda number=number: ended.append(number))  # type: ignore[misc]
    wait_until(lambda: sorted(ended) == list(range(1, 50)), SECONDS, "all jobs")
    assert names() <= 2
    threads.close(1.0)
    wait_until(lambda: names() == 0, SECONDS, "the end of the threads")


def test_another_takes_the_place_of_one_that_is_left_behind() -> None:
    pool = DaemonPool(1, "pool", lambda: 7.0)
    begun, go, ended = threading.Event(), threading.Event(), []
    hanging = pool.begin(lambda: (begun.set(), go.wait(SECONDS)))
    assert begun.wait(SECONDS) and hanging.begun == 7.0
    pool.begin(lambda: ended.append("next"))
    assert ended == [] and pool.abandon(hanging)
    wait_until(lambda: ended == ["next"], SECONDS, "the next job")
    pool.close()
    go.set()
    wait_until(lambda: hanging.ended, SECONDS, "the job that hung")
    assert not pool.abandon(hanging), "it has ended"


def test_one_that_waits_and_is_left_behind_is_not_begun() -> None:
    pool = DaemonPool(1, "pool", lambda: 0.0)
    begun, go, ended = threading.Event(), threading.Event(), []
    pool.begin(lambda: (begun.set(), go.wait(SECONDS)))
    assert begun.wait(SECONDS)
    waiting = pool.begin(lambda: ended.append("never"))
    assert pool.abandon(waiting) and waiting.begun is None
    pool.begin(lambda: ended.append("after it"))
    go.set()
    wait_until(lambda: ended == ["after it"], SECONDS, "the last job")
    pool.close()


def test_of_too_many_that_hang_nobody_takes_the_place() -> None:
    pool = DaemonPool(1, "pool", lambda: 0.0)
    go, ended = threading.Event(), []
    for _ in range(MOST_HANGING):
        begun = threading.Event()
        job = pool.begin(lambda begun=begun: (begun.set(), go.wait(SECONDS)))  # type: ignore[misc]
        assert not pool.is_blocked and begun.wait(SECONDS)
        pool.abandon(job)
    assert pool.is_blocked
    pool.begin(lambda: ended.append("at last"))
    go.set()
    wait_until(lambda: ended == ["at last"], SECONDS, "the job that waited for the first to come back")
    assert not pool.is_blocked
    pool.close()

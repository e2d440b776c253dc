"""Locks, semaphores, counters, barriers and events by name, over real processes."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel_parallel.coordination import (
    Barrier,
    BrokenBarrierError,
    CoordinationError,
    Counter,
    Event,
    LeaseLostError,
    Lock,
    Semaphore,
)

import kernel
from kernel.testing.faults import paused


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    kernel.shutdown()
    with kernel.init(num_cpus=4):
        yield


def until(condition: Callable[[], Any], seconds: float = 120.0) -> Any:
    """Return the first true value of the condition; fail after a while."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not become true"
        time.sleep(0.01)
    return found


@kernel.remote
class Holder:
    """An actor that holds locks."""

    def __init__(self) -> None:
        self.held: Any = None

    def pid(self) -> int:
        return os.getpid()

    def acquire(self, lock: Any) -> bool:
        self.held = lock
        return bool(lock.acquire())

    def release(self) -> None:
        self.held.release()

    def forget(self) -> None:
        self.held = None


# -- locks -----------------------------------------------------------------------------------------------------------


def test_a_lock_lets_one_at_a_time_in(tmp_path: Path) -> None:
    path = tmp_path / "number"
    path.write_text("0")

    @kernel.remote
    def rise(times: int) -> None:
        for _ in range(times):
            with Lock("file"):
                number = int(path.read_text())
                time.sleep(0.0005)
                path.write_text(str(number + 1))

    kernel.get([rise.remote(15) for _ in range(4)])
    assert path.read_text() == "60" and not Lock("file").locked()


def test_acquire_takes_a_timeout_and_says_who_holds_it() -> None:
    lock, other = Lock("mine"), Lock("mine")
    assert lock.owner() is None and lock.acquire()
    assert lock.held() and other.locked() and not other.held()
    assert f"a program, process {os.getpid()} on " in (other.owner() or "")
    assert other.acquire(blocking=False) is False and other.acquire(timeout=0.05) is False
    lock.release()
    assert other.acquire(blocking=False)
    other.release()


def test_a_lock_that_is_passed_on_is_not_held_there() -> None:
    holder = Holder.remote()
    lock = Lock("passed")
    with lock:
        waiting = holder.acquire.remote(lock)
        assert kernel.wait([waiting], timeout=0.1)[0] == []
    assert kernel.get(waiting) and "actor " in (lock.owner() or "")
    kernel.get(holder.release.remote())
    assert not lock.locked()


def test_a_holder_that_dies_frees_its_lock() -> None:
    holder = Holder.remote()
    kernel.get(holder.acquire.remote(Lock("orphan", lease=1.0)))
    kernel.kill(holder)
    lock = Lock("orphan", lease=1.0)
    assert lock.acquire(timeout=120)
    lock.release()


def test_a_holder_keeps_its_lock_for_longer_than_the_lease() -> None:
    holder = Holder.remote()
    kernel.get(holder.acquire.remote(Lock("long", lease=9.0)))
    assert Lock("long").acquire(timeout=9.5) is False
    kernel.get(holder.release.remote())


def test_what_is_held_by_nobody_any_more_is_freed() -> None:
    holder = Holder.remote()
    kernel.get([holder.acquire.remote(Lock("dropped", lease=0.5)), holder.forget.remote()])
    lock = Lock("dropped")
    assert lock.acquire(timeout=120)
    lock.release()


def test_a_holder_that_stood_still_for_too_long_hears_of_it() -> None:
    holder = Holder.remote()
    kernel.get(holder.acquire.remote(Lock("slow", lease=0.5)))
    with paused(kernel.get(holder.pid.remote())):
        lock = Lock("slow")
        assert lock.acquire(timeout=120)
    with pytest.raises((LeaseLostError, CoordinationError), match="lease of 0.5 s"):
        kernel.get(holder.release.remote())
    assert lock.held()
    before = lock.fence
    lock.release()
    with lock:
        assert lock.fence > before  # also when nobody held it meanwhile


def test_who_does_not_hold_a_lock_can_not_release_it() -> None:
    with pytest.raises(RuntimeError, match=r"holds no permit of lock 'free': acquire\(\) it first"):
        Lock("free").release()
    for make, words in [
        (lambda: Lock(""), "a lock needs a name"),
        (lambda: Lock("a", lease=0), "a number of seconds above 0, not 0"),
        (lambda: Semaphore("a", 0), "semaphore 'a' needs at least one permit"),
        (lambda: Barrier("a", 0), "barrier 'a' needs at least one party"),
        (lambda: Lock("a").acquire(timeout=-3), "a timeout is a number of seconds from 0 on, or None, and not -3"),
    ]:
        with pytest.raises(CoordinationError, match=words):
            make()


def test_coroutines_wait_without_blocking_each_other() -> None:
    async def program() -> list[int]:
        seen: list[int] = []

        async def enter(number: int) -> None:
            async with Lock("async"):
                seen.append(number)
                await asyncio.sleep(0)
                seen.append(number)

        await asyncio.gather(*[enter(number) for number in range(5)])
        lock, other = Lock("async"), Lock("async")
        assert await lock.acquire_async() and not await other.acquire_async(timeout=0.02)
        await lock.release_async()
        return seen

    seen = asyncio.run(program())
    assert seen[::2] == seen[1::2] and sorted(seen[::2]) == [0, 1, 2, 3, 4]


def test_who_is_cancelled_while_it_waits_leaves_the_line() -> None:
    @kernel.remote(num_cpus=0.5)
    def wait() -> None:
        with Lock("line"):
            Counter("line").add()

    @kernel.remote(num_cpus=0.5)
    def stand() -> None:
        Barrier("line", 2).wait()

    with Lock("line"):
        waiting, standing = wait.remote(), stand.remote()
        barrier = Barrier("line", 2)
        until(lambda: barrier.n_waiting == 1)
        kernel.cancel(waiting)
        kernel.cancel(standing)
        for ref in (waiting, standing):
            with pytest.raises(kernel.exceptions.TaskCancelledError):
                kernel.get(ref)
        until(lambda: barrier.broken)
    with Lock("line"):
        assert Counter("line").get() == 0


# -- semaphores ------------------------------------------------------------------------------------------------------


def test_a_semaphore_lets_so_many_in() -> None:
    @kernel.remote(num_cpus=0.5)
    def work() -> int:
        with Semaphore("seats", 2):
            inside = Counter("inside").add()
            time.sleep(0.01)
            Counter("inside").add(-1)
            return inside

    assert max(kernel.get([work.remote() for _ in range(8)])) <= 2
    one, two, three = (Semaphore("chairs", 2) for _ in range(3))
    assert one.acquire() and two.acquire() and not three.acquire(blocking=False)
    assert len(three.owners()) == 2
    with pytest.raises(CoordinationError, match="semaphore 'chairs' has 2 permits, and was asked for as if it had 3"):
        Semaphore("chairs", 3).acquire()
    one.release()
    two.release()


def test_one_object_may_hold_several_permits() -> None:
    seats = Semaphore("several", 3)
    assert all(seats.acquire() for _ in range(3)) and not seats.acquire(blocking=False)
    for _ in range(3):
        seats.release()
    assert not seats.held() and seats.owners() == []


# -- counters --------------------------------------------------------------------------------------------------------


def test_a_counter_counts_every_change_once() -> None:
    @kernel.remote
    def count() -> list[int]:
        return [Counter("changes").add() for _ in range(50)]

    values = [value for values in kernel.get([count.remote() for _ in range(4)]) for value in values]
    assert sorted(values) == list(range(1, 201))
    counter = Counter("changes")
    assert counter.get() == 200 and counter.set(5) == 200
    assert counter.compare_and_set(4, 0) is False and counter.compare_and_set(5, 7) is True
    assert asyncio.run(counter.add_async(3)) == 10 == asyncio.run(counter.get_async())
    counter.delete()
    assert Counter("changes", start=100).add() == 101


# -- events ----------------------------------------------------------------------------------------------------------


def test_an_event_lets_all_go_on_who_wait_for_it() -> None:
    @kernel.remote(num_cpus=0.5)
    def wait(event: Event) -> bool:
        return event.wait(600)

    event = Event("start")
    assert not event.is_set() and event.wait(0.02) is False
    waiting = [wait.remote(event) for _ in range(3)]
    Event("start").set()
    assert kernel.get(waiting) == [True] * 3 and event.is_set() and asyncio.run(event.wait_async())
    event.clear()
    assert not event.is_set() and not asyncio.run(event.wait_async(0.01))
    asyncio.run(event.set_async())
    assert event.wait()
    event.delete()
    assert not event.is_set()


# -- barriers --------------------------------------------------------------------------------------------------------


def test_a_barrier_is_passed_by_all_together_again_and_again() -> None:
    @kernel.remote(num_cpus=0.5)
    def rounds() -> list[tuple[int, int]]:
        found = []
        for _ in range(3):
            Counter("came").add()
            place = Barrier("round", 3).wait(600)
            found.append((place, Counter("came").get()))
            Barrier("read", 3).wait(600)
        return found

    found = kernel.get([rounds.remote() for _ in range(3)])
    for turn in range(3):
        assert sorted(one[turn][0] for one in found) == [0, 1, 2]
        assert [one[turn][1] for one in found] == [3 * (turn + 1)] * 3


def test_who_gives_up_breaks_the_barrier_for_all() -> None:
    barrier = Barrier("broken", 3)
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            Barrier("broken", 3).wait(600)
        except BrokenBarrierError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: barrier.n_waiting == 1)
    with pytest.raises(threading.BrokenBarrierError, match="only 2 of 3 came to barrier 'broken' within 0.05 s"):
        barrier.wait(0.05)
    thread.join(120)
    assert len(errors) == 1 and barrier.broken
    with pytest.raises(BrokenBarrierError, match="only 2 of 3 came"):
        asyncio.run(barrier.wait_async())
    barrier.reset()
    assert not barrier.broken
    barrier.abort()
    with pytest.raises(BrokenBarrierError, match="was aborted; Barrier"):
        barrier.wait()
    barrier.delete()
    with pytest.raises(CoordinationError, match="is for 1 parties, and was used as if it were for 2"):
        assert Barrier("broken", 1).wait() == 0
        Barrier("broken", 2).wait()

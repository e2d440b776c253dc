"""Which tasks share leases: large arguments draw a task to where they lie, and idle leases go where they are of use."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kernel.runtime.definitions import Shape
from kernel.runtime.object_entry import INLINE, PENDING, STORED
from kernel_processes.runtime.lease_pools import LeasePools
from kernel_processes.runtime.leasing import LeasePool, WorkerLease
from kernel_processes.runtime.locality import NEAR_BYTES, bytes_near, home_of
from kernel_spec.ids import LeaseId, ProcessId

HERE, THERE, YONDER = "here:1", "there:1", "yonder:1"
LARGE = NEAR_BYTES


def stored(size: int, *places: str) -> Any:
    return SimpleNamespace(state=STORED, value=(size, places))


def task(*arguments: Any, strategy: Any = "", retries: int = 3) -> Any:
    shape = Shape({"CPU": 10_000}, strategy=strategy)
    holds = list(arguments) or None
    return SimpleNamespace(definition=SimpleNamespace(shape=shape), retries=retries, holds=holds, cancelled=False)


def lease(pool: LeasePool, place: str, busy: bool = False) -> WorkerLease:
    found = WorkerLease(LeaseId(b"lease"), pool, ProcessId(b"worker"), None, place=place)
    if busy:
        found.in_flight[b"task"] = task()
    pool.leases.append(found)
    return found


@pytest.fixture
def pools() -> LeasePools:
    return LeasePools(lambda: HERE)


@pytest.mark.parametrize(
    ("arguments", "home"),
    [
        ([stored(LARGE, THERE)], THERE),
        ([stored(LARGE - 1, THERE)], ""),
        ([stored(LARGE // 2, THERE), stored(LARGE // 2, THERE, YONDER)], THERE),
        ([stored(LARGE, THERE), stored(2 * LARGE, YONDER)], YONDER),
        ([stored(LARGE, THERE, HERE)], HERE),
        ([stored(LARGE)], ""),
        ([SimpleNamespace(state=INLINE, value=b"x"), SimpleNamespace(state=PENDING, value=None)], ""),
        ([], ""),
    ],
)
def test_home_is_where_most_of_what_is_large_lies(arguments: list[Any], home: str) -> None:
    assert home_of(task(*arguments), HERE) == home


def test_bytes_are_counted_at_each_place() -> None:
    assert bytes_near(task(stored(10, THERE, HERE), stored(5, THERE))) == {THERE: 15, HERE: 10}
    outside = f"{HERE}~0123456789abcdef"
    assert bytes_near(task(stored(10, outside), stored(5, THERE, outside))) == {THERE: 5}, "nothing runs there"
    assert bytes_near(task()) == {}


def test_tasks_of_one_kind_and_home_share_a_pool(pools: LeasePools) -> None:
    near = pools.of(task(stored(LARGE, THERE)))
    assert near.home == THERE and pools.of(task(stored(3 * LARGE, THERE))) is near
    plain = pools.of(task())
    assert plain.home == "" and pools.of(task(stored(1, THERE))) is plain
    assert pools.of(task(retries=0)) is not plain
    assert pools.of(task(stored(LARGE, THERE), retries=0)) is not near
    assert pools.of(task(stored(LARGE, YONDER))).home == YONDER
    assert len(list(pools)) == 5 and len(pools.plain) == 2
    assert pools.find(task(stored(LARGE, "new:1"))) is None


def test_a_strategy_of_its_own_is_stronger_than_data(pools: LeasePools) -> None:
    assert pools.of(task(stored(LARGE, THERE), strategy="SPREAD")).home == ""
    assert pools.of(task(stored(LARGE, THERE), strategy="DEFAULT")).home == THERE


def test_idle_leases_go_over_to_who_can_use_them(pools: LeasePools) -> None:
    plain, near = pools.of(task()), pools.of(task(stored(LARGE, THERE)))
    busy, away, there = lease(plain, THERE, busy=True), lease(plain, YONDER), lease(plain, THERE)
    assert pools.lend(near) is there and there.pool is near
    assert near.leases == [there] and plain.leases == [busy, away]
    assert pools.lend(near) is None, "the others are busy, or elsewhere"
    assert pools.lend(plain) is there, "what lies nowhere can run anywhere"


def test_leases_that_have_work_waiting_or_are_asked_back_stay(pools: LeasePools) -> None:
    plain, near = pools.of(task()), pools.of(task(stored(LARGE, THERE)))
    lease(plain, THERE).reclaimed = True
    assert pools.lend(near) is None
    lease(plain, THERE)
    plain.push(task(), 1.0)
    assert pools.lend(near) is None
    other = pools.of(task(stored(LARGE, THERE), retries=0))
    plain.queue.clear()
    assert pools.lend(other) is None, "what may not run again shares no lease with what may"


def test_idle_leases_at_a_place_are_found_in_every_pool(pools: LeasePools) -> None:
    plain, other = pools.of(task()), pools.of(task(strategy="SPREAD"))
    lease(plain, THERE, busy=True)
    expected = [lease(plain, THERE), lease(other, THERE)]
    lease(other, HERE)
    assert pools.idle_at(THERE) == expected


def test_pools_are_forgotten_when_they_are_empty(pools: LeasePools) -> None:
    plain, near = pools.of(task()), pools.of(task(stored(LARGE, THERE)))
    used = pools.of(task(stored(LARGE, YONDER)))
    lease(used, YONDER)
    plain.push(task(), 1.0)
    for number in range(3):
        pools.of(task(strategy=f"in placement group {number}"))
    pools.tidy()
    assert list(pools) == [plain, used]
    used.leases.clear()
    plain.pop()
    pools.tidy()
    assert list(pools) == [] and pools.of(task(stored(LARGE, THERE))) is not near

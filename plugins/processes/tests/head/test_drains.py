"""When a node that is drained leaves, and what is copied before."""

from __future__ import annotations

import random

import pytest

from kernel_processes.head.drains import DONE, LATE, STORE_SECONDS, AskBack, CopyObjects, DrainTable, Leave, LookAtStore
from kernel_spec.ids import LeaseId, NodeId, ObjectId

GOING, NEAR, FAR = NodeId(b"going"), NodeId(b"near"), NodeId(b"far")
A, B, C = ObjectId(b"a"), ObjectId(b"b"), ObjectId(b"c")
LEASE = LeaseId(b"lease")


def draining(deadline: float | None = None) -> DrainTable:
    table = DrainTable()
    table.begin(GOING, deadline, 0.0)
    return table


def test_an_idle_empty_node_leaves_when_it_has_been_looked_at() -> None:
    table = draining()
    assert table.look(GOING, [], 0.0) == [LookAtStore(GOING)]
    assert table.stored(GOING, {}, [NEAR], busy=False) == [Leave(GOING, DONE)]
    assert table.look(GOING, [], 100.0) == []


def test_each_lease_is_asked_back_once() -> None:
    table = draining()
    assert AskBack((LEASE,)) in table.look(GOING, [LEASE], 0.0)
    assert not [step for step in table.look(GOING, [LEASE], 0.1) if isinstance(step, AskBack)]
    assert table.look(GOING, [LEASE, LeaseId(b"other")], 0.2) == [AskBack((LeaseId(b"other"),))]


def test_a_busy_node_stays_and_is_looked_at_now_and_then() -> None:
    table = draining()
    table.look(GOING, [], 0.0)
    assert table.stored(GOING, {}, [NEAR], busy=True) == []
    assert table.look(GOING, [], STORE_SECONDS / 2) == []
    assert table.look(GOING, [], STORE_SECONDS) == [LookAtStore(GOING)]
    assert table.look(GOING, [], 100.0) == [], "it has not answered yet"


def test_objects_go_to_their_owners_and_else_anywhere() -> None:
    table = draining()
    table.look(GOING, [], 0.0)
    owners = {A: FAR, B: NodeId(b"also going"), C: GOING}
    steps = table.stored(GOING, owners, [NEAR, FAR], busy=False)
    copies = {step.target: step.objects for step in steps if isinstance(step, CopyObjects)}
    assert copies.pop(FAR)[0] == A and sum(copies.values(), ()) in ((), (B,))
    assert not any(isinstance(step, Leave) for step in steps)
    for step in steps:
        assert isinstance(step, CopyObjects)
        table.copied(GOING, step.objects)
    assert table.look(GOING, [], STORE_SECONDS) == [LookAtStore(GOING)]
    assert table.stored(GOING, owners, [NEAR, FAR], busy=False) == [Leave(GOING, DONE)]


def test_where_nobody_else_is_nothing_is_copied() -> None:
    table = draining()
    table.look(GOING, [], 0.0)
    assert table.stored(GOING, {A: NEAR}, [], busy=False) == [Leave(GOING, DONE)]


def test_the_deadline_comes_before_all_else() -> None:
    table = draining(5.0)
    assert table.look(GOING, [LEASE], 4.9) == [AskBack((LEASE,)), LookAtStore(GOING)]
    assert table.look(GOING, [LEASE], 5.0) == [Leave(GOING, LATE)]
    assert table.stored(GOING, {A: NEAR}, [NEAR], busy=True) == []
    table.gone(GOING)
    table.copied(GOING, [A])
    table.validate()


def test_the_last_deadline_that_was_said_counts() -> None:
    table = draining(5.0)
    table.begin(GOING, None, 1.0)
    assert table.look(GOING, [], 6.0) == [LookAtStore(GOING)]
    table.begin(GOING, 7.0, 6.0)
    assert table.look(GOING, [], 7.0) == [Leave(GOING, LATE)]


def test_whatever_happens_a_node_leaves_once_and_not_while_it_is_busy() -> None:
    for seed in range(200):
        dice = random.Random(seed)
        deadline = dice.choice([None, 3.0])
        table = draining(deadline)
        owners = {ObjectId(bytes([n])): dice.choice([NEAR, FAR, GOING]) for n in range(dice.randrange(6))}
        looking, copying, busy, left, now = False, list[CopyObjects](), True, 0, 0.0
        for _ in range(200):
            now += dice.choice([0.05, 0.1, 0.6])
            busy = busy and dice.random() < 0.9
            steps = table.look(GOING, [], now)
            if looking and dice.random() < 0.5:
                looking = False
                answer = table.stored(GOING, owners, dice.choice([[NEAR], [NEAR, FAR], []]), busy)
                assert not busy or not any(isinstance(step, Leave) for step in answer)
                steps += answer
            if copying and dice.random() < 0.5:
                table.copied(GOING, copying.pop().objects)
            copying += [step for step in steps if isinstance(step, CopyObjects)]
            looking = looking or any(isinstance(step, LookAtStore) for step in steps)
            left += sum(isinstance(step, Leave) for step in steps)
            table.validate()
        assert left == 1, seed


def test_a_broken_invariant_is_told_with_what_happened_before() -> None:
    table = draining(5.0)
    table.begin(NEAR, None, 1.0)
    table.look(NEAR, [], 1.0)
    table.stored(NEAR, {A: FAR}, [FAR], busy=False)
    table.look(GOING, [], 5.0)
    table.gone(GOING)
    table.gone(GOING)
    table.copied(NEAR, [A])
    table.copied(NEAR, [A])
    with pytest.raises(AssertionError) as broken:
        table.validate()
    assert str(broken.value).splitlines() == [
        f"{NEAR.hex()} has answered more often than it was asked",
        f"{GOING.hex()[:12]} is to leave by 5.0",
        f"{NEAR.hex()[:12]} is to leave by None",
        f"{NEAR.hex()[:12]} has 1 objects to copy",
        f"{GOING.hex()[:12]} {LATE}",
        f"{GOING.hex()[:12]} is gone",
    ]
    table.drains[FAR] = table.drains.pop(NEAR)
    with pytest.raises(AssertionError, match="a drain is listed under another node"):
        table.validate()


def test_a_node_that_is_gone_is_forgotten() -> None:
    table = draining()
    table.gone(GOING)
    assert table.drains == {}
    assert table.stored(GOING, {}, [NEAR], busy=False) == []


def test_objects_that_nobody_near_owns_are_spread_over_those_that_stay() -> None:
    table = draining()
    table.look(GOING, [], 0.0)
    gone = NodeId(b"gone")
    steps = table.stored(GOING, {A: gone, B: gone, C: gone}, [NEAR, FAR], busy=True)
    assert steps == [CopyObjects(GOING, NEAR, (A, C)), CopyObjects(GOING, FAR, (B,))]
    assert table.look(GOING, [], 100.0) == [], "two copies are awaited"
    table.copied(GOING, [A, C])
    assert table.look(GOING, [], 100.0) == [], "one copy is awaited"
    table.copied(GOING, [B])
    assert table.look(GOING, [], 100.0) == [LookAtStore(GOING)]


def test_a_drain_is_cancelled_until_the_node_is_told_to_leave() -> None:
    table = draining()
    assert table.look(GOING, [], 0.0) == [LookAtStore(GOING)]
    assert table.cancel(GOING) and GOING not in table.drains
    assert table.stored(GOING, {}, [NEAR], busy=False) == [], "an answer about it that was on its way changes nothing"
    table.begin(GOING, None, 1.0)
    table.look(GOING, [], 1.0)
    assert table.stored(GOING, {}, [NEAR], busy=False) == [Leave(GOING, DONE)]
    assert not table.cancel(GOING), "it ends already"
    assert table.cancel(NEAR), "it was to stay anyway"

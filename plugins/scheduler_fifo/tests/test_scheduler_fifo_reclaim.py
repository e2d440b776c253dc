"""Whom the default scheduler asks back."""

from __future__ import annotations

from collections import Counter

import pytest
from kernel_scheduler_fifo import FifoScheduler

from kernel.conformance.scheduler_harness import SchedulerHarness
from kernel_spec.ids import LeaseId, NodeId


@pytest.fixture
def world() -> SchedulerHarness:
    return SchedulerHarness(FifoScheduler())


def owners(world: SchedulerHarness, ids: list[LeaseId]) -> Counter[str]:
    return Counter(world.requests[id].requester.decode().rstrip(".") for id in ids)


def test_nobody_is_asked_before_a_moment_has_passed(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 1})
    world.request({"CPU": 1}, requester="one")
    world.request({"CPU": 1}, requester="two")
    assert world.tick(0.05) == []
    assert len(world.tick(0.1)) == 1


def test_as_many_are_asked_as_are_needed_and_each_once(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 8})
    world.request_many(8, {"CPU": 1}, requester="one")
    world.request({"CPU": 3}, requester="two")
    assert len(world.tick(0.2)) == 3
    assert world.tick(0.2, times=10) == []


def test_the_one_with_most_leases_is_asked_first(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 8})
    world.request_many(6, {"CPU": 1}, requester="large")
    world.request_many(2, {"CPU": 1}, requester="small")
    world.request({"CPU": 4}, requester="guest")
    assert owners(world, world.tick(0.2)) == {"large": 4}
    world.request({"CPU": 2}, requester="other")
    assert owners(world, world.tick(0.2)) == {"large": 1, "small": 1}


def test_two_who_want_the_same_end_up_with_half_each(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 8})
    world.request_many(8, {"CPU": 1}, requester="one")
    world.request_many(8, {"CPU": 1}, requester="two")
    for _ in range(20):
        for id in world.tick(0.2):
            again = world.requests[id].requester.decode().rstrip(".")
            world.release(id)
            world.request({"CPU": 1}, requester=again)
    assert owners(world, list(world.granted)) == {"one": 4, "two": 4}
    before = len(world.reclaimed)
    world.tick(0.2, times=20)
    assert len(world.reclaimed) == before, "an even split stays as it is"


def test_one_process_with_two_kinds_of_work_shares_between_them(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 4})
    world.request_many(4, {"CPU": 1})
    world.request({"CPU": 2})
    assert len(world.tick(0.2)) == 2


@pytest.mark.parametrize(
    "difference",
    [
        {"hints": {"colour": "red"}},
        {"environment": "other"},
        {"preemptible": True},
        {"locality": {NodeId(b"n1"): 5_000_000, NodeId(b"n2"): 1}},
    ],
    ids=lambda difference: next(iter(difference)),
)
def test_a_lease_of_another_kind_can_not_stand_in(world: SchedulerHarness, difference: dict[str, object]) -> None:
    world.add_node({"CPU": 1})
    held = world.request({"CPU": 1})
    world.request({"CPU": 1}, **difference)
    assert world.tick(0.2) == [held]


def test_requests_behind_the_holders_own_are_served_too(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 4})
    world.request_many(6, {"CPU": 1}, requester="greedy")
    guest = world.request({"CPU": 1}, requester="guest")
    assert len(world.tick(0.2)) == 3, "two requests of the holder come before the guest's"
    world.release(*world.reclaimed)
    assert guest in world.granted


def test_an_actor_takes_precedence_and_keeps_what_it_has(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 2})
    tasks = world.request_many(2, {"CPU": 1})
    for expected in tasks:
        actor = world.request({"CPU": 1}, for_actor=True)
        assert world.tick(0.2) == [expected]
        world.release(expected)
        assert actor in world.granted
    world.request({"CPU": 1})
    assert world.tick(0.2, times=5) == []


def test_only_holders_of_what_is_missing_are_asked(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 2, "GPU": 2})
    world.request({"CPU": 1}, requester="one")
    halves = world.request_many(4, {"GPU": 0.5}, requester="two")
    world.request({"GPU": 1}, requester="three")
    asked = world.tick(0.2)
    devices = {index for id in asked for index in world.granted[id].allocation.devices["GPU"]}
    assert len(asked) == 2 and set(asked) <= set(halves) and len(devices) == 1, "both halves of one device"


def test_cpu_that_is_lent_already_is_not_asked_for(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 2})
    blocked, running = world.request_many(2, {"CPU": 1}, requester="one")
    world.block(blocked)
    world.request({"CPU": 1}, requester="one")
    world.request({"CPU": 2}, requester="two")
    assert blocked not in world.tick(0.2)
    assert running in world.reclaimed


def test_the_impossible_is_not_asked_for(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 2})
    world.request({"CPU": 1}, requester="one", for_actor=True)
    world.request({"CPU": 1}, requester="one")
    world.request({"CPU": 2}, requester="two")
    world.request({"CPU": 3}, requester="two")
    assert world.tick(0.2, times=5) == []


def test_a_new_wait_may_ask_again(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 1})
    held = world.request({"CPU": 1}, requester="one")
    first = world.request({"CPU": 1}, requester="two")
    assert world.tick(0.2) == [held]
    world.cancel(first)
    world.request({"CPU": 1}, requester="two")
    assert world.tick(0.2) == [held]


@pytest.mark.parametrize(
    ("cpus", "kinds", "settles"),
    [
        (8, {"small": ("one", 1), "other": ("two", 1)}, True),
        (8, {"small": ("one", 1), "medium": ("one", 2), "other": ("two", 1)}, True),
        (8, {"small": ("one", 1), "half": ("one", 4)}, True),
        (8, {"small": ("one", 1), "whole": ("one", 8)}, False),
        (2, {"first": ("one", 1), "second": ("two", 1), "third": ("three", 1)}, False),
    ],
)
def test_endless_work_of_several_kinds_gets_its_share(
    world: SchedulerHarness, cpus: int, kinds: dict[str, tuple[str, int]], settles: bool
) -> None:
    """Holders keep their leases until they are asked, give back a tick later, and always want ten more."""
    world.add_node({"CPU": cpus})
    held: Counter[str] = Counter()
    asked: list[LeaseId] = []
    wishes: list[int] = []
    for _ in range(300):
        waiting = Counter(request.name for request in world.waiting.values())
        for name, (requester, amount) in kinds.items():
            world.request_many(10 - waiting[name], {"CPU": amount}, requester=requester, name=name)
        now_asked = world.tick(0.1)
        world.release(*asked)
        asked = now_asked
        wishes.append(len(asked))
        for id in world.granted:
            name = world.requests[id].name
            held[name] += kinds[name][1]
    shares = {name: held[name] / held.total() for name in kinds}
    assert min(shares.values()) >= 0.6 / len(kinds), f"somebody gets too little: {shares}"
    assert held.total() >= 0.85 * 300 * cpus, "too much lies idle"
    assert not settles or sum(wishes[-50:]) == 0, f"leases still change hands: {wishes[-50:]}"

"""Placement groups: who comes first, what is kept for them, whom they ask, and what people read."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from kernel_scheduler_fifo import FifoScheduler
from kernel_scheduler_fifo.reclaim import PATIENCE_SECONDS
from kernel_scheduler_fifo.reservations import RESERVATION_SECONDS

from kernel.conformance.scheduler_fuzz import AFFINITY, GROUPS, LABELS, random_history
from kernel.conformance.scheduler_harness import SchedulerHarness
from kernel_spec.scheduling import GROUP_STRATEGIES, PACK, SPREAD, STRICT_PACK, STRICT_SPREAD


@pytest.fixture
def world() -> SchedulerHarness:
    return SchedulerHarness(FifoScheduler(), FifoScheduler)


def test_groups_alike_are_served_in_the_order_they_came(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 2})
    groups = [world.group([{"CPU": 2}]) for _ in range(4)]
    served = []
    for _ in groups:
        placed = next(id for id in world.groups if world.bundles[id])
        served.append(placed)
        world.remove_group(placed)
    assert served == groups


def test_a_group_that_does_not_fit_lets_others_pass(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 4})
    world.request({"CPU": 1}, for_actor=True)
    large = world.group([{"CPU": 4}])
    small = world.group([{"CPU": 1}])
    assert world.bundles[small] and not world.bundles[large]


def test_what_is_freed_is_kept_for_a_group_that_waits(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 2})
    running = world.request_many(2, {"CPU": 1})
    group = world.group([{"CPU": 1}, {"CPU": 1}], name="gang")
    assert sorted(world.tick(0.2)) == sorted(running), "who holds what it lacks is asked"
    late = world.request({"CPU": 1})
    world.release(running[0])
    assert late in world.waiting
    reason = world.explain(late)
    assert reason.code == "behind" and "it is kept for placement group gang" in reason.text
    world.release(running[1])
    assert world.bundles[group] and late in world.waiting


def test_nothing_is_kept_for_a_group_that_has_just_come(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 2})
    running = world.request_many(2, {"CPU": 1})
    world.tick(10.0)
    world.group([{"CPU": 2}])
    world.tick(PATIENCE_SECONDS / 2)
    late = world.request({"CPU": 1})
    world.release(running[0])
    assert late in world.granted


def test_nothing_is_kept_for_a_group_that_actors_are_in_the_way_of(world: SchedulerHarness) -> None:
    nodes = [world.add_node({"CPU": 2}) for _ in range(2)]
    world.request({"CPU": 1}, for_actor=True)
    world.group([{"CPU": 2}, {"CPU": 2}], STRICT_SPREAD)
    world.tick(0.2, times=30)
    assert len({world.granted[world.request({"CPU": 1})].node for _ in range(3)}) == len(nodes)


def test_others_get_a_turn_after_a_while_and_then_it_is_kept_for_longer(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 2})
    running = world.request_many(2, {"CPU": 1})
    group = world.group([{"CPU": 2}])
    world.tick(0.2)
    late = world.request_many(2, {"CPU": 1})
    world.release(running[0])
    assert late[0] in world.waiting
    world.tick(RESERVATION_SECONDS)
    assert late[0] in world.granted, "the other lease goes on for long, so somebody else may"
    world.tick(3.0, times=2)
    world.release(late[0])
    assert late[1] in world.waiting, "it is kept again"
    world.tick(1.5 * RESERVATION_SECONDS)
    assert late[1] in world.waiting, "for twice as long"
    world.release(running[1])
    assert world.bundles[group]


def test_a_group_wider_than_one_glance_is_placed(world: SchedulerHarness) -> None:
    for _ in range(100):
        world.add_node({"CPU": 1})
    running = world.request_many(100, {"CPU": 1}, for_actor=False)
    groups = [world.group([{"CPU": 1}] * 80, strategy) for strategy in (STRICT_SPREAD, PACK, SPREAD)]
    world.tick(0.2)
    assert len(world.reclaimed) >= 80
    world.release(*running)
    assert len({*world.nodes_of(groups[0])}) == 80
    for done, following in pairwise(groups):
        world.remove_group(done)
        assert len(world.nodes_of(following)) == 80


def test_a_group_is_packed_beside_what_is_left_of_it(world: SchedulerHarness) -> None:
    first, second = world.add_node({"CPU": 2}), world.add_node({"CPU": 3})
    world.add_node({"CPU": 9}, labels={"zone": "far"})
    world.group([{"CPU": 9}])
    group = world.group([{"CPU": 1}] * 3)
    assert world.nodes_of(group) == [second] * 3
    world.remove_node(second)
    assert not world.bundles[group]
    world.remove_group(group)
    group = world.group([{"CPU": 2}, {"CPU": 2}], SPREAD)
    third = world.add_node({"CPU": 2})
    assert world.nodes_of(group) == [first, third]
    world.remove_node(third)
    assert world.explain(group).text.startswith("1 of its 2 bundles (SPREAD): for now no node has room")


def test_what_a_group_lost_comes_before_those_who_came_later(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 1})
    lost = world.add_node({"CPU": 2})
    old = world.group([{"CPU": 2}])
    waiting = world.group([{"CPU": 2}])
    world.remove_node(lost)
    assert not world.bundles[old] and world.explain(old).code == "infeasible"
    world.add_node({"CPU": 2})
    assert world.bundles[old] and not world.bundles[waiting]


def test_a_group_behind_another_says_which(world: SchedulerHarness) -> None:
    node = world.add_node({"CPU": 2})
    world.request({"CPU": 1}, name="train")
    world.group([{"CPU": 2}], name="first")
    second = world.group([{"CPU": 2}], name="second")
    world.tick(3.0)
    reason = world.explain(second)
    assert (reason.code, reason.text) == (
        "behind",
        "it is number 2 in line for placement groups like it, first come, first served; the first in line, placement "
        "group first, has waited 3.0 s: it wants 1 x (CPU: 2) (PACK): for now no node has room for bundle 0 (CPU: 2); "
        f"on node {node.hex()} 1 of 2 CPU is free, held by train (1)",
    )


def test_a_removed_group_gives_up_what_was_kept_for_it(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 2})
    running = world.request_many(2, {"CPU": 1})
    group = world.group([{"CPU": 2}])
    world.tick(0.2)
    world.release(running[0])
    late = world.request({"CPU": 1})
    assert late in world.waiting
    world.remove_group(group)
    assert late in world.granted


def test_a_node_that_drains_is_kept_for_nobody(world: SchedulerHarness) -> None:
    nodes = [world.add_node({"CPU": 2}) for _ in range(2)]
    running = [world.request({"CPU": 2}) for _ in nodes]
    group = world.group([{"CPU": 2}, {"CPU": 2}], STRICT_SPREAD)
    world.tick(0.2)
    late = world.request({"CPU": 1})
    world.release(running[1])
    assert late in world.waiting
    world.drain_node(world.granted[running[0]].node)
    assert late in world.granted, "the group can't be placed any more, so nothing is kept for it"
    assert world.explain(group).code == "infeasible"


def test_leases_in_a_group_starve_no_more_than_others(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 4})
    group = world.group([{"CPU": 4}])
    running = world.request_many(4, {"CPU": 1}, group=group)
    large = world.request({"CPU": 4}, group=group)
    for _ in range(500):
        world.request({"CPU": 1}, group=group)
        world.release(running.pop(0))
        world.tick(0.05)
        running = [id for id in world.granted if id != large]
        if large in world.granted:
            return
    raise AssertionError("500 small requests were served before a large one that came first")


def test_holders_in_a_bundle_are_asked_back_for_others_in_it(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 4})
    group = world.group([{"CPU": 2}, {"CPU": 2}])
    inside = world.request_many(4, {"CPU": 1}, group=group, requester="greedy")
    world.request({"CPU": 1}, group=group, bundle=0, requester="modest")
    asked = world.tick(0.2)
    assert len(asked) == 1 and asked[0] in inside and world.granted[asked[0]].bundle == 0


@pytest.mark.parametrize("strategy", GROUP_STRATEGIES)
def test_groups_that_want_all_of_it_take_turns(world: SchedulerHarness, strategy: str) -> None:
    """Three groups, each as large as all nodes together, and small work that never ends: everybody gets a turn."""
    for _ in range(3 if strategy != STRICT_PACK else 1):
        world.add_node({"CPU": 2})
    bundles = [{"CPU": 2}] * len(world.nodes)
    groups = [world.group(bundles, strategy) for _ in range(3)]
    turns = dict.fromkeys(groups, 0)
    for _ in range(400):
        if len(world.waiting) < 6:
            world.request({"CPU": 1})
        for lease in list(world.granted)[:2]:
            world.release(lease)
        for place, group in enumerate(groups):
            if world.bundles[group]:
                turns[group] += 1
                world.remove_group(group)
                groups[place] = world.group(bundles, strategy, id=group)
        world.tick(0.1)
    assert min(turns.values()) >= 5, f"turns of the groups: {list(turns.values())}"


@pytest.mark.parametrize("seed", range(1000, 1010))
def test_long_histories(seed: int, world: SchedulerHarness) -> None:
    random_history(world, random.Random(seed), (AFFINITY, LABELS, GROUPS), events=600)

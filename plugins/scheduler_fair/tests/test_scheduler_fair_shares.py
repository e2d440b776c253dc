"""Accounts get in proportion to their weights, whatever they want, and never more than their quotas."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from kernel_scheduler_fair.policy import AccountPolicy, Policy
from kernel_scheduler_fair.scheduler import FairScheduler

from kernel.conformance.scheduler_harness import SchedulerHarness
from kernel_spec.ids import LeaseId
from kernel_spec.resources import amounts


def world_of(**accounts: AccountPolicy) -> SchedulerHarness:
    policy = Policy(accounts)
    return SchedulerHarness(FairScheduler(policy), lambda: FairScheduler(policy))


def ask(world: SchedulerHarness, account: str, count: int, wanted: dict[str, float], **fields: Any) -> list[LeaseId]:
    hints = {"account": account, **fields.pop("hints", {})}
    return world.request_many(count, wanted, requester=account, hints=hints, **fields)


def held(world: SchedulerHarness) -> Counter[str]:
    """Return how many leases each account holds."""
    return Counter(world.requests[id].hints["account"] for id in world.granted)


def run(world: SchedulerHarness, turns: int = 400) -> None:
    """Let the oldest lease end again and again; whoever was asked back ends first."""
    for _ in range(turns):
        asked = [id for id in world.reclaimed if id in world.granted]
        world.release(asked[0] if asked else next(iter(world.granted)))
        world.tick(0.1)


# -- shares --------------------------------------------------------------------------------------------------------


def test_two_who_want_the_same_get_half_each() -> None:
    world = world_of()
    world.add_node({"CPU": 8})
    ask(world, "early", 600, {"CPU": 1})
    ask(world, "late", 600, {"CPU": 1})
    assert held(world) == {"early": 8}
    run(world, 40)
    assert held(world) == {"early": 4, "late": 4}


def test_weights_divide_what_is_wanted() -> None:
    world = world_of(large=AccountPolicy(3.0), small=AccountPolicy(1.0))
    world.add_node({"CPU": 8})
    ask(world, "small", 600, {"CPU": 1})
    ask(world, "large", 600, {"CPU": 1})
    run(world, 60)
    assert held(world) == {"large": 6, "small": 2}


def test_the_hint_weight_counts_for_accounts_that_the_policy_does_not_name() -> None:
    world = world_of(named=AccountPolicy(1.0))
    world.add_node({"CPU": 8})
    ask(world, "named", 600, {"CPU": 1}, hints={"weight": 7})
    ask(world, "free", 600, {"CPU": 1}, hints={"weight": 3})
    run(world, 60)
    assert held(world) == {"free": 6, "named": 2}


def test_what_counts_is_the_scarcest_resource_of_each() -> None:
    world = world_of()
    world.add_node({"CPU": 9, "memory": 18})
    ask(world, "memory_hog", 300, {"CPU": 1, "memory": 4})
    ask(world, "cpu_hog", 300, {"CPU": 3, "memory": 1})
    run(world, 60)
    assert held(world) == {"memory_hog": 3, "cpu_hog": 2}, "two thirds of the memory, two thirds of the CPUs"


def test_what_one_does_not_want_others_may_have_until_it_is_wanted() -> None:
    world = world_of()
    world.add_node({"CPU": 8})
    ask(world, "busy", 300, {"CPU": 1})
    assert held(world) == {"busy": 8}, "nobody else wants anything"
    ids = ask(world, "quiet", 2, {"CPU": 1})
    world.tick(0.2)
    assert len(world.reclaimed) == 2, "as many are asked back as are wanted"
    world.release(*world.reclaimed)
    assert all(id in world.granted for id in ids)


def test_jobs_without_an_account_are_accounts_of_their_own() -> None:
    scheduler = FairScheduler()
    world = SchedulerHarness(scheduler)
    world.add_node({"CPU": 2})
    world.request_many(2, {"CPU": 1})
    waiting = world.request({"CPU": 1}, requester="other")
    text = world.explain(waiting).text
    assert f"account job {world.requests[waiting].job.hex()} holds 100.0% of all" in text


def test_what_is_held_from_before_counts() -> None:
    world = world_of()
    node = world.add_node({"CPU": 4})
    for _ in range(3):
        world.hold({"CPU": 1}, node, hints={"account": "old"})
    first = ask(world, "old", 1, {"CPU": 1})[0]
    ask(world, "old", 1, {"CPU": 1})
    new = ask(world, "new", 1, {"CPU": 1})[0]
    world.release(first)
    assert new in world.granted, "the other holds three of four"


# -- quotas --------------------------------------------------------------------------------------------------------


def test_a_quota_is_never_exceeded_and_its_return_is_noticed() -> None:
    world = world_of(capped=AccountPolicy(quota=amounts({"CPU": 2})))
    world.add_node({"CPU": 8})
    ids = ask(world, "capped", 4, {"CPU": 1})
    assert list(world.granted) == ids[:2], "six CPUs are free, and the quota is two"
    reason = world.explain(ids[2])
    assert reason.code == "busy"
    assert "it wants CPU: 1, and account capped holds CPU: 2 of CPU: 2, its quota" in reason.text
    assert world.explain(ids[3]).code == "behind"
    others = ask(world, "free", 6, {"CPU": 1})
    assert all(id in world.granted for id in others)
    world.tick(1.0, times=10)
    assert not world.reclaimed, "nobody else can help who has used up his quota"
    world.release(ids[0])
    assert ids[2] in world.granted


def test_more_than_the_quota_can_never_be_had() -> None:
    world = world_of(capped=AccountPolicy(quota=amounts({"CPU": 2, "GPU": 1})))
    world.add_node({"CPU": 8, "GPU": 8})
    (id,) = ask(world, "capped", 1, {"CPU": 3})
    assert world.explain(id) == (world.explain(id))
    assert world.explain(id).code == "infeasible"
    assert "it wants CPU: 3, and the quota of account capped is CPU: 2" in world.explain(id).text


def test_a_quota_of_nothing_keeps_an_account_out() -> None:
    world = world_of(out=AccountPolicy(quota={"GPU": 0}))
    world.add_node({"CPU": 8, "GPU": 8})
    gpu, cpu = ask(world, "out", 1, {"GPU": 1})[0], ask(world, "out", 1, {"CPU": 1})[0]
    assert cpu in world.granted and world.explain(gpu).code == "infeasible"


def test_the_default_quota_is_for_accounts_that_are_not_named() -> None:
    policy = Policy({"free": AccountPolicy()}, AccountPolicy(quota=amounts({"CPU": 1})))
    world = SchedulerHarness(FairScheduler(policy))
    world.add_node({"CPU": 8})
    ask(world, "some", 3, {"CPU": 1})
    ask(world, "free", 3, {"CPU": 1})
    assert held(world) == {"some": 1, "free": 3}


def test_a_lent_cpu_does_not_count_so_that_nested_calls_end() -> None:
    world = world_of(capped=AccountPolicy(quota=amounts({"CPU": 1})))
    world.add_node({"CPU": 4})
    parent, child = ask(world, "capped", 2, {"CPU": 1})
    assert child in world.waiting
    world.block(parent)
    assert child in world.granted, "the parent waits for its child"
    world.unblock(parent)
    (third,) = ask(world, "capped", 1, {"CPU": 1})
    world.release(child)
    assert third in world.waiting
    world.release(parent)
    assert third in world.granted


def test_a_quota_holds_for_placement_groups_and_what_runs_inside_is_paid_for() -> None:
    world = world_of(capped=AccountPolicy(quota=amounts({"CPU": 4})))
    world.add_node({"CPU": 16})
    hints = {"account": "capped"}
    first = world.group([{"CPU": 2}, {"CPU": 2}], hints=hints)
    second = world.group([{"CPU": 1}], hints=hints)
    assert world.bundles[first] and not world.bundles[second]
    assert "capped" in world.explain(second).text and world.explain(second).code == "busy"
    inside = world.request_many(4, {"CPU": 1}, group=first, hints=hints)
    assert all(id in world.granted for id in inside)
    world.remove_group(first)
    assert world.bundles[second]


def test_a_quota_is_kept_over_a_restart_of_the_head() -> None:
    world = world_of(capped=AccountPolicy(quota=amounts({"CPU": 3})))
    world.add_node({"CPU": 8})
    group = world.group([{"CPU": 1}], hints={"account": "capped"})
    ids = ask(world, "capped", 3, {"CPU": 1})
    world.block(ids[0])
    world.restart()
    more = ask(world, "capped", 2, {"CPU": 1})
    assert [id in world.granted for id in (*ids, *more)] == [True, True, True, False, False]
    world.remove_group(group)
    assert more[0] in world.granted and more[1] in world.waiting


def test_accounts_that_are_not_used_any_more_are_forgotten() -> None:
    scheduler = FairScheduler()
    world = SchedulerHarness(scheduler)
    world.add_node({"CPU": 1})
    (kept,) = ask(world, "kept", 1, {"CPU": 1})
    (waiting,) = ask(world, "waiting", 1, {"CPU": 1})
    for number in range(1000):
        (id,) = ask(world, f"short {number}", 1, {"CPU": 1})
        world.cancel(id)
    assert len(scheduler.accounts) < 600
    world.release(kept)
    assert waiting in world.granted


@pytest.mark.parametrize("weight", [0, -1, "much", float("nan"), None, True])
def test_hints_that_make_no_sense_change_nothing(weight: Any) -> None:
    world = world_of()
    world.add_node({"CPU": 1})
    hints = {"account": 3, "priority": weight if weight else "high", "weight": weight}
    id = world.request({"CPU": 1}, hints=hints)
    assert id in world.granted

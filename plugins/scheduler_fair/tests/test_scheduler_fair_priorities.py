"""Who is more important comes first, and takes what can be repeated from who is less so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kernel_scheduler_fair.policy import Policy
from kernel_scheduler_fair.scheduler import FairScheduler

from kernel.conformance.scheduler_harness import SchedulerHarness
from kernel_spec.ids import LeaseId
from kernel_spec.scheduling import Event, Instruction, Preempt


class Watching(FairScheduler):
    """Keeps what it has preempted, and why."""

    preempted: dict[LeaseId, str]

    def handle(self, event: Event, now: float) -> list[Instruction]:
        answer = super().handle(event, now)
        self.preempted = {**getattr(self, "preempted", {})}
        self.preempted |= {step.id: step.reason for step in answer if isinstance(step, Preempt)}
        return answer


def world_of(**policy: Any) -> SchedulerHarness:
    return SchedulerHarness(Watching(replace(Policy(), **policy)))


def preempted(world: SchedulerHarness) -> dict[LeaseId, str]:
    assert isinstance(world.scheduler, Watching)
    return world.scheduler.preempted


def ask(world: SchedulerHarness, priority: float, count: int = 1, **fields: Any) -> list[LeaseId]:
    wanted = fields.pop("wanted", {"CPU": 1})
    return world.request_many(count, wanted, hints={"priority": priority}, **fields)


def test_the_most_important_is_served_first_and_equals_in_order() -> None:
    world = world_of()
    world.add_node({"CPU": 1})
    (running,) = ask(world, 0)
    low, high, same = ask(world, -1)[0], ask(world, 5, 2), ask(world, 0)[0]
    while world.granted:
        world.release(next(iter(world.granted)))
    assert world.order == [running, *high, same, low]


def test_less_important_work_is_asked_back_and_what_does_not_come_is_preempted() -> None:
    world = world_of()
    world.add_node({"CPU": 2})
    low = ask(world, 0, 2, preemptible=True, requester="low")
    (high,) = ask(world, 1, requester="high")
    world.tick(0.2)
    assert len(world.reclaimed) == 1 and not preempted(world), "it may end on its own"
    world.tick(0.5)
    assert not preempted(world)
    world.tick(0.6)
    assert preempted(world) == {world.reclaimed[0]: "priority 1 waits, and this has 0"}
    assert high in world.granted and len(world.granted) == 2
    assert world.reclaimed[0] == low[1], "the youngest has least to repeat"
    world.tick(1.0, times=5)
    assert len(preempted(world)) == 1, "nobody else waits"


def test_what_came_back_in_time_is_not_preempted() -> None:
    world = world_of()
    world.add_node({"CPU": 1})
    ask(world, 0, preemptible=True)
    (high,) = ask(world, 1)
    world.tick(0.2)
    world.release(*world.reclaimed)
    world.tick(1.0, times=5)
    assert high in world.granted and not preempted(world)


@pytest.mark.parametrize(
    ("held", "waiting", "why"),
    [
        ({"priority": 0, "preemptible": False}, 1, "what can't be repeated is asked, never ended"),
        ({"priority": 1, "preemptible": True}, 1, "equals are not ended for one another"),
        ({"priority": 2, "preemptible": True}, 1, "nor the more important for the less"),
    ],
)
def test_who_is_never_preempted(held: dict[str, Any], waiting: float, why: str) -> None:
    world = world_of()
    world.add_node({"CPU": 1})
    ask(world, held.pop("priority"), requester="holder", **held)
    ask(world, waiting, requester="waiter")
    world.tick(0.5, times=40)
    assert not preempted(world), why


def test_the_victims_are_few_unimportant_and_repeatable() -> None:
    world = world_of()
    world.add_node({"CPU": 4})
    world.add_node({"CPU": 4})
    middle = ask(world, 2, 3, preemptible=True, strategy="SPREAD", requester="middle")
    low = ask(world, 1, 1, preemptible=True, strategy="SPREAD", requester="low")
    ask(world, 0, 1, wanted={"CPU": 4}, requester="fixed")
    large = ask(world, 1, 1, wanted={"CPU": 2}, preemptible=True, requester="large")
    assert len(world.granted) == 5, "one CPU is free on one of the nodes at least"
    (high,) = ask(world, 9, wanted={"CPU": 2}, requester="high")
    if high in world.waiting:
        world.tick(0.2)
        world.tick(1.1)
        assert set(preempted(world)) <= {*low, *large}, f"the middle ones {middle} are more important"
        assert high in world.granted


def test_an_important_group_takes_the_place_of_many() -> None:
    world = world_of()
    for _ in range(2):
        world.add_node({"CPU": 4})
    low = ask(world, 0, 8, preemptible=True)
    group = world.group([{"CPU": 3}, {"CPU": 3}], "STRICT_SPREAD", hints={"priority": 1})
    world.tick(0.2)
    world.tick(1.1)
    assert len(preempted(world)) == 6 and set(preempted(world)) <= set(low)
    assert len(set(world.nodes_of(group))) == 2


def test_a_preemptible_actor_goes_for_a_more_important_one_only() -> None:
    world = world_of()
    world.add_node({"CPU": 1})
    (actor,) = ask(world, 0, for_actor=True, preemptible=True)
    ask(world, 0, requester="equal")
    world.tick(0.5, times=20)
    assert actor in world.granted and not world.reclaimed
    (high,) = ask(world, 1, for_actor=True)
    world.tick(0.2)
    world.tick(1.1)
    assert list(preempted(world)) == [actor] and high in world.granted
    assert not world.reclaimed, "actors are never asked"


def test_patience_may_be_set() -> None:
    world = world_of(reclaim_seconds=5.0, preempt_seconds=0.0)
    world.add_node({"CPU": 1})
    ask(world, 0, preemptible=True)
    (high,) = ask(world, 1)
    world.tick(4.0)
    assert not world.reclaimed and not preempted(world)
    world.tick(1.5)
    assert preempted(world) and high in world.granted


def test_waiting_makes_more_important_unless_it_is_turned_off() -> None:
    for seconds, first in ((10.0, "low"), (0.0, "high")):
        world = world_of(ageing_seconds=seconds)
        world.add_node({"CPU": 1})
        (running,) = ask(world, 5)
        (low,) = ask(world, 0, requester="low")
        world.tick(59.0)
        world.tick(2.0)
        (high,) = ask(world, 5, requester="high")
        world.release(running)
        assert (low if first == "low" else high) in world.granted


def test_explain_says_how_important_it_is_and_who_comes_first() -> None:
    world = world_of()
    world.add_node({"CPU": 1})
    ask(world, 0, name="holder")
    ask(world, 7)
    low = ask(world, 2, 2)
    reason = world.explain(low[0])
    assert reason.code == "busy" and "held by holder (1)" in reason.text
    assert "its priority is 2" in reason.text and "1 lines are served before it" in reason.text
    reason = world.explain(low[1])
    assert reason.code == "behind" and "it is number 2 in line for CPU: 1 on account job" in reason.text


def test_a_plan_is_given_up_when_its_node_goes() -> None:
    world = world_of()
    node = world.add_node({"CPU": 1})
    ask(world, 0, preemptible=True)
    (high,) = ask(world, 1)
    world.tick(0.2)
    world.remove_node(node)
    world.tick(1.5)
    assert not preempted(world)
    world.add_node({"CPU": 1})
    assert high in world.granted


def test_room_that_is_kept_is_free_again_when_nobody_waits_for_it() -> None:
    world = world_of()
    world.add_node({"CPU": 4})
    small = ask(world, 0, 3, requester="small")
    (large,) = ask(world, 1, wanted={"CPU": 4}, requester="large")
    world.tick(0.2)
    assert set(world.reclaimed) == set(small)
    (other,) = ask(world, 0, requester="other")
    assert other in world.waiting, "the CPU that is free is kept for the large one"
    assert world.explain(other).text
    world.cancel(large)
    assert other in world.granted

"""What the autoscaler decides, event by event: buying, waiting, keeping, giving back, and saying why not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from kernel_autoscaler.core import events
from kernel_autoscaler.core.autoscaler import BY_HAND, Autoscaler
from kernel_autoscaler.core.kinds import Kind
from kernel_autoscaler.core.machines import DRAINING, RUNNING, STARTING, TERMINATING
from kernel_autoscaler.core.settings import Settings
from kernel_autoscaler.core.shown import shown
from kernel_autoscaler.core.snapshot import NodeView, Snapshot, WaitingGroup, WaitingShape, snapshot_of

from kernel_spec.placement import placement_of
from kernel_spec.providers import CAPACITY, INVALID, UNKNOWN, ProvidedNode
from kernel_spec.resources import amounts

SMALL = Kind("small", amounts({"CPU": 2}), price=0.1, boot_seconds=30.0)
LARGE = Kind("large", amounts({"CPU": 8}), price=0.36, boot_seconds=60.0)
GPU = Kind("gpu", amounts({"CPU": 4, "GPU": 1}), price=1.0, boot_seconds=90.0)
KINDS = (SMALL, LARGE, GPU)


class World:
    """An autoscaler and what it sees: nodes that a test makes, and needs that it says."""

    def __init__(self, *kinds: Kind, **settings: Any) -> None:
        self.now = 0.0
        self.kinds = {kind.name: kind for kind in kinds or KINDS}
        self.autoscaler = Autoscaler(kinds or KINDS, Settings(**{"burst_seconds": 0.0, **settings}), "test")
        self.nodes: dict[str, NodeView] = {}

    def tell(self, event: events.Event) -> list[events.Instruction]:
        return self.autoscaler.handle(event, self.now)

    def see(self, *shapes: WaitingShape, groups: Any = (), asked: Any = ()) -> list[events.Instruction]:
        asked = [amounts(bundle) for bundle in asked]
        return self.tell(events.Observed(Snapshot(shapes, groups, asked, list(self.nodes.values()))))

    def node(
        self, machine: str = "", busy: Mapping[str, float] | None = None, idle: float | None = None, **more: Any
    ) -> str:
        """Show a node, of a machine or started by hand; one that is `busy` with something is not idle."""
        id = more.pop("id", f"node-{machine or len(self.nodes)}")
        kind = self.kinds[self.autoscaler.machines.machines[machine].kind] if machine else None
        total = amounts(more.pop("total", {})) if kind is None else kind.resources
        free = {name: units - amounts(busy or {}).get(name, 0) for name, units in total.items()}
        seconds = None if busy else idle or 0.0
        self.nodes[id] = NodeView(id, total, free, machine, labels=more.pop("labels", {}), idle_seconds=seconds, **more)
        return id

    def made(self, count: int, kind: str = "small") -> list[str]:
        """Have machines ordered and made, and their nodes join, idle; return the ids of the machines."""
        order = self.autoscaler.machines.order(kind, count, "test", self.now)
        ids = [f"{kind}-{order.token}-{number}" for number in range(count)]
        self.tell(events.Created(order.token, ids))
        for id in ids:
            self.node(id)
        self.see()
        return ids

    def state(self, id: str) -> str:
        return self.autoscaler.machines.machines[id].state


def wants(cpus: float = 1.0, count: int = 1, **more: Any) -> WaitingShape:
    return WaitingShape(amounts({"CPU": cpus}), requests=count, **more)


def created(steps: list[events.Instruction]) -> dict[str, int]:
    return {step.kind: step.count for step in steps if isinstance(step, events.MakeMachines)}


# -- buying --------------------------------------------------------------------------------------------------------


def test_what_has_no_place_is_bought_at_the_least_price() -> None:
    world = World()
    world.node(total={"CPU": 4}, is_head=True)
    assert created(world.see(wants(count=4))) == {}, "it fits where there is room"
    assert created(world.see(wants(count=12))) == {"large": 1}
    assert created(world.see(wants(count=12))) == {}, "that is on its way"
    assert created(world.see(wants(count=14))) == {"small": 1}, "only what is more"


def test_a_machine_that_starts_is_counted_whole() -> None:
    world = World()
    (create,) = (step for step in world.see(wants(count=8)) if isinstance(step, events.MakeMachines))
    world.tell(events.Created(create.token, ["m"]))
    assert world.state("m") == STARTING and created(world.see(wants(count=8))) == {}


def test_short_tasks_behind_the_requests_are_worth_no_machine_each() -> None:
    quick = wants(count=2, backlog=100_000, backlog_seconds=360.0)
    assert created(World().see(quick)) == {"large": 1}, "six workers end them within a minute"
    unknown = created(World().see(wants(count=2, backlog=98, backlog_seconds=float("inf"))))
    assert unknown == {"large": 12, "small": 2}, "nobody has timed them: there is a CPU for each"


def test_a_burst_is_waited_for_while_it_grows_and_not_for_ever() -> None:
    world = World(burst_seconds=0.05, burst_limit_seconds=1.0)
    assert world.see(wants(count=1)) == [events.LookAgain(0.05)]
    count = 1
    while world.now < 0.95:
        world.now, count = world.now + 0.06, count + 1
        assert world.see(wants(count=count)) == [events.LookAgain(0.05)]
    world.now += 0.06
    assert created(world.see(wants(count=count + 1))), "it has grown for a second"
    world = World(burst_seconds=0.05)
    world.see(wants(count=3))
    world.now = 0.05
    assert created(world.see(wants(count=3))) == {"small": 2}


def test_a_group_is_served_whole_or_not_at_all() -> None:
    world = World(maximum_nodes=2)
    gang = WaitingGroup("gang-1", "STRICT_SPREAD", dict.fromkeys(range(3), amounts({"CPU": 1})))
    assert created(world.see(groups=[gang])) == {}
    assert world.autoscaler.unmet[0].what.endswith("placement group gang-1 (CPU: 1)")
    pair = WaitingGroup("gang-2", "STRICT_SPREAD", dict.fromkeys(range(2), amounts({"CPU": 1})))
    assert created(world.see(groups=[gang, pair])) == {"small": 2}


def test_bundles_that_have_to_be_together_get_one_machine() -> None:
    gang = WaitingGroup("gang", "STRICT_PACK", dict.fromkeys(range(3), amounts({"CPU": 2})))
    assert created(World().see(groups=[gang])) == {"large": 1}


def test_a_bundle_that_was_lost_is_placed_beside_no_other_of_its_group() -> None:
    world = World()
    here = world.node(total={"CPU": 8}, busy={"CPU": 1})
    gang = WaitingGroup("gang", "STRICT_SPREAD", dict.fromkeys(range(2), amounts({"CPU": 1})), {0: here})
    assert created(world.see(groups=[gang])) == {"small": 1}


def test_what_was_asked_for_counts_on_whole_nodes_busy_or_not() -> None:
    world = World()
    world.node(total={"CPU": 4}, busy={"CPU": 4})
    assert created(world.see(asked=[{"CPU": 2}, {"CPU": 2}])) == {}
    assert created(world.see(asked=[{"CPU": 2}, {"CPU": 2}, {"CPU": 2}])) == {"small": 1}


def test_there_are_always_as_many_as_the_minimum() -> None:
    world = World(Kind("small", amounts({"CPU": 2}), price=0.1, minimum=2))
    assert created(world.see(wants(count=2))) == {"small": 2}
    assert created(world.see(wants(count=2))) == {}


def test_what_no_machine_serves_is_said_with_the_nearest_kind() -> None:
    world = World()
    world.see(WaitingShape(amounts({"GPU": 8}), names=("train",)), wants(names=("there",), placement=_zone("a")))
    assert [(one.what, one.why) for one in world.autoscaler.unmet] == [
        ("1 x there (CPU: 1)", "no kind of machine has zone in (a)"),
        ("1 x train (GPU: 8)", "no kind of machine is large enough: gpu, the nearest, lacks GPU: 7"),
    ]


def test_what_waits_for_a_certain_node_is_worth_no_machine() -> None:
    hard = placement_of({"type": "node_affinity", "node": "ab" * 8, "soft": False})
    assert created(World().see(wants(placement=hard))) == {}


def test_limits_of_kinds_nodes_and_price_hold() -> None:
    cheap = Kind("cheap", amounts({"CPU": 2}), price=0.1, maximum=2)
    dear = Kind("dear", amounts({"CPU": 2}), price=1.0)
    assert created(World(cheap, dear).see(wants(2, 4))) == {"cheap": 2, "dear": 2}
    assert created(World(cheap, dear, maximum_nodes=3).see(wants(2, 4))) == {"cheap": 2, "dear": 1}
    world = World(cheap, dear, maximum_price=1.3)
    assert created(world.see(wants(2, 4))) == {"cheap": 2, "dear": 1}
    assert world.autoscaler.unmet[0].why == "cheap: there may be no more of it; dear: there may be no more of it"


def _zone(name: str) -> Any:
    return placement_of({"type": "node_labels", "hard": {"zone": name}})


# -- failures ------------------------------------------------------------------------------------------------------


def test_without_capacity_the_next_kind_is_taken_at_once() -> None:
    world = World()
    (create,) = (step for step in world.see(wants(count=8)) if isinstance(step, events.MakeMachines))
    assert create.kind == "large"
    assert world.tell(events.CreateFailed(create.token, CAPACITY, "none left")) == [events.LookAgain(0.0)]
    assert created(world.see(wants(count=8))) == {"small": 4}
    closed = {row["name"]: row["closed"] for row in shown(world.autoscaler, world.now)["kinds"]}
    assert closed == {"small": "", "large": "none left (capacity)", "gpu": ""}


def test_fewer_machines_than_ordered_are_taken_and_the_rest_is_of_another_kind() -> None:
    world = World(LARGE, SMALL)
    (create,) = (step for step in world.see(wants(8, 3)) if isinstance(step, events.MakeMachines))
    world.tell(events.Created(create.token, ["m"]))
    assert created(world.see(wants(8, 3))) == {} and "1 of 3 were made" in world.autoscaler.unmet[0].why


def test_an_order_whose_outcome_is_not_known_is_not_made_twice() -> None:
    world = World()
    (create,) = (step for step in world.see(wants(count=2)) if isinstance(step, events.MakeMachines))
    assert world.tell(events.CreateFailed(create.token, UNKNOWN, "timeout")) == [events.ListMachines()]
    assert created(world.see(wants(count=2))) == {}
    world.tell(events.Listed([ProvidedNode("m", "small", "starting")]))
    assert world.state("m") == STARTING and created(world.see(wants(count=2))) == {}


def test_a_provider_that_knows_tokens_is_asked_again_with_the_same_one() -> None:
    world = World(repeats=True)
    (create,) = (step for step in world.see(wants(count=2)) if isinstance(step, events.MakeMachines))
    (again,) = world.tell(events.CreateFailed(create.token, UNKNOWN, "timeout"))
    assert isinstance(again, events.MakeMachines) and again.token == create.token


def test_a_machine_that_does_not_join_is_ended_and_its_kind_is_left_alone_for_a_while() -> None:
    world = World(SMALL, join_seconds=10.0)
    order = world.autoscaler.machines.order("small", 1, "test", 0.0)
    world.tell(events.Created(order.token, ["m"]))
    world.now = 3 * SMALL.boot_seconds
    (end,) = world.see()
    assert end == events.Terminate(("m",), "it has not joined within 90 s")
    assert created(world.see(wants())) == {} and "has not joined" in world.autoscaler.unmet[0].why


def test_a_machine_that_failed_is_ended_with_the_providers_words() -> None:
    world = World()
    (id,) = world.made(1)
    (end,) = world.tell(events.Listed([ProvidedNode(id, "small", "failed", problem="its disk is broken")]))
    assert end == events.Terminate((id,), "its disk is broken")


def test_where_there_may_be_no_more_the_latest_failure_is_told() -> None:
    world = World(SMALL, maximum_nodes=1)
    (id,) = world.made(1)
    world.tell(events.Listed([ProvidedNode(id, "small", "failed", problem="its disk is broken")]))
    world.nodes.clear()
    world.now += 60.0
    assert created(world.see(wants(count=50))) == {"small": 1}
    world.see(wants(count=50))
    assert "there may be no more of it; the latest has failed: its disk is broken" in world.autoscaler.unmet[0].why


def test_an_invalid_kind_is_not_asked_for_again_soon() -> None:
    world = World(SMALL)
    (create,) = (step for step in world.see(wants()) if isinstance(step, events.MakeMachines))
    world.tell(events.CreateFailed(create.token, INVALID, "no such image"))
    world.now = 1000.0
    assert created(world.see(wants())) == {}


def test_a_machine_whose_node_is_gone_is_ended_and_replaced_if_it_is_needed() -> None:
    world = World()
    (id,) = world.made(1)
    del world.nodes[f"node-{id}"]
    steps = world.see(wants(2))
    assert steps[0] == events.Terminate((id,), "its node is gone") and created(steps) == {"small": 1}


# -- giving back ---------------------------------------------------------------------------------------------------


def test_an_idle_node_is_drained_and_its_machine_ended_when_it_has_left() -> None:
    world = World(idle_seconds=60.0)
    (id,) = world.made(1)
    node = world.node(id, idle=59.0)
    assert world.see() == []
    world.node(id, idle=60.0)
    assert world.see() == [events.Drain(node, "it was idle for 60 s")]
    world.node(id, idle=61.0, state="DRAINING")
    assert world.see() == [], "it has not left yet"
    del world.nodes[node]
    assert world.see() == [events.Terminate((id,), "its node has left: it was idle for 60 s")]
    assert world.state(id) == TERMINATING


def test_a_busy_node_the_head_and_nodes_that_were_started_by_hand_stay() -> None:
    world = World(idle_seconds=60.0)
    (id,) = world.made(1)
    world.node(id, busy={"CPU": 1})
    world.node(total={"CPU": 2}, idle=1000.0)
    world.node(total={"CPU": 2}, idle=1000.0, is_head=True)
    assert world.see() == []


def test_nodes_that_are_asked_for_or_are_the_minimum_stay() -> None:
    kind = Kind("small", amounts({"CPU": 2}), price=0.1, minimum=1)
    world = World(kind, idle_seconds=60.0)
    ids = world.made(3)
    for id in ids:
        world.node(id, idle=100.0)
    assert world.see(asked=[{"CPU": 2}] * 3) == []
    assert len(world.see(asked=[{"CPU": 2}] * 2)) == 1
    assert len(world.see()) == 1, "one is the minimum"


def test_the_most_expensive_idle_nodes_go_first_and_what_waits_keeps_a_place() -> None:
    world = World(idle_seconds=60.0)
    (small,), (large,) = world.made(1), world.made(1, "large")
    for id in (small, large):
        world.node(id, idle=100.0)
    steps = world.see(wants(count=2))
    assert [step.node for step in steps if isinstance(step, events.Drain)] == [f"node-{large}"]


def test_a_node_that_drains_is_kept_when_it_is_needed_and_nothing_is_bought() -> None:
    world = World(idle_seconds=60.0)
    (id,) = world.made(1)
    node = world.node(id, idle=60.0)
    world.see()
    world.node(id, idle=61.0, state="DRAINING")
    assert world.see(wants(2)) == [events.KeepNode(node, "it is needed again")]
    assert world.state(id) == RUNNING


def test_what_was_drained_by_hand_is_not_kept() -> None:
    world = World()
    (id,) = world.made(1)
    world.node(id, state="DRAINING", idle=1.0)
    assert created(world.see(wants(2))) == {"small": 1}
    assert (world.state(id), world.autoscaler.machines.machines[id].why) == (DRAINING, BY_HAND)


def test_a_node_that_will_be_taken_away_is_drained_and_replaced_in_one_step() -> None:
    world = World()
    (id,) = world.made(1)
    node = world.node(id, busy={"CPU": 2})
    steps = world.tell(events.InterruptionAnnounced(id, 120.0, "somebody pays more"))
    assert steps[0] == events.Drain(node, "somebody pays more", 120.0)
    assert created(world.see()) == {"small": 1}


def test_all_is_given_back_at_the_end_and_nothing_is_made() -> None:
    world = World()
    (id,) = world.made(1)
    order = world.autoscaler.machines.order("large", 1, "test", world.now)
    steps = world.tell(events.StopAll())
    assert steps == [events.Terminate((id,), "the cluster ends"), events.ListMachines()]
    assert world.see(wants(count=100)) == []
    assert world.tell(events.Created(order.token, ["late"])) == [events.Terminate(("late",), "the cluster ends")]
    assert not world.autoscaler.is_finished
    for _ in range(2):
        world.tell(events.Listed([]))
    assert world.autoscaler.is_finished


# -- costs, restarts, and the head's words -------------------------------------------------------------------------


def test_costs_are_counted_with_the_part_that_was_idle() -> None:
    world = World()
    ids = world.made(2)
    world.node(ids[0], busy={"CPU": 1})
    world.see()
    world.now = 3600.0
    world.see()
    assert world.autoscaler.price == pytest.approx(0.2)
    assert (world.autoscaler.spent, world.autoscaler.spent_idle) == (pytest.approx(0.2), pytest.approx(0.1))


def test_a_restart_goes_on_with_what_the_journal_has() -> None:
    world = World()
    (id,) = world.made(1)
    world.see(wants(count=10))
    again = Autoscaler(KINDS, Settings(), "test")
    assert again.restore(json.loads(json.dumps(world.autoscaler.plain()))) == [events.ListMachines()]
    assert again.machines.machines.keys() == {id} and again.machines.count() == world.autoscaler.machines.count()


def test_the_heads_answer_is_read() -> None:
    row = {
        "wanted": {"CPU": 1.0}, "strategy": "SPREAD", "for_actor": False, "requests": 2, "backlog": 3,
        "backlog_seconds": 4.0, "names": ["f"],
    }  # fmt: skip
    node = {
        "node_id": "ab", "provider_id": "i-1", "is_head": False, "state": "ALIVE", "total": {"CPU": 2.0},
        "available": {"CPU": -1.0}, "labels": {}, "idle_seconds": None,
    }  # fmt: skip
    group = {
        "placement_group_id": "cd", "strategy": "PACK", "bundles": {0: {"CPU": 1.0}, 1: {"CPU": 2.0}},
        "bundles_to_node_id": {0: "ab"}, "labels": [{}, {"zone": "a"}],
    }  # fmt: skip
    answer = {"shapes": [row], "groups": [group], "asked": [{"job_id": "j", "bundles": [{"CPU": 1}]}], "nodes": [node]}
    found = snapshot_of(answer)
    assert found.shapes[0].workers(60.0) == 3 and found.asked == [amounts({"CPU": 1})]
    assert found.groups[0].waiting() == [1] and found.groups[0].placements[1].suits({"zone": "a"})
    assert (found.nodes[0].available, found.nodes[0].provider_id) == ({}, "i-1")

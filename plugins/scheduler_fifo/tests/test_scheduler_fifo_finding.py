"""The index finds what looking at all nodes would have found, at the same cost for few nodes and for many."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from kernel_scheduler_fifo import FifoScheduler

from kernel.conformance.scheduler_fuzz import WANTED
from kernel.conformance.scheduler_harness import SchedulerHarness
from kernel_spec.choosing import places_for
from kernel_spec.ids import JobId, LeaseId, NodeId, ProcessId
from kernel_spec.node_index import MOST_ALTERNATIVES
from kernel_spec.resources import UNIT, amounts
from kernel_spec.scheduling import Grant, LeaseReleased, LeaseRequest, LeaseRequested, NodeAdded


def conditions(dice: random.Random) -> dict[str, Any]:
    many = [f"x{number}" for number in range(MOST_ALTERNATIVES)]
    choices: list[Any] = ["a", ["a", "b"], [*many, "b"], {"not_in": ["a"]}, {"exists": True}, {"exists": False}, []]
    return {label: dice.choice(choices) for label in dice.sample(["zone", "disk"], dice.choice([1, 1, 2]))}


def strategy(dice: random.Random, nodes: list[NodeId]) -> Any:
    kind = dice.random()
    if kind < 0.3:
        return "DEFAULT"
    if kind < 0.5:
        return "SPREAD"
    if kind < 0.7:
        return {"type": "node_affinity", "node": dice.choice(nodes).hex(), "soft": dice.random() < 0.7}
    return {"type": "node_labels", "hard": conditions(dice), "soft": conditions(dice)}


@pytest.mark.parametrize("seed", range(30))
def test_the_best_place_of_all_is_taken(seed: int) -> None:
    dice = random.Random(seed)
    scheduler = FifoScheduler()
    world = SchedulerHarness(scheduler)
    nodes = []
    for _ in range(dice.choice([1, 3, 9, 20])):
        total = {
            "CPU": dice.choice([1, 4, 8]),
            "GPU": dice.choice([0, 0, 2]),
            "memory": 8,
            "blue": dice.choice([0, 0, 1]),
        }
        labels = {label: dice.choice("abc") for label in ("zone", "disk") if dice.random() < 0.7}
        nodes.append(world.add_node(total, labels=labels))
    if len(nodes) > 3:
        world.drain_node(nodes[2])
        world.remove_node(nodes.pop(1))
    for turn in range(60):
        wanted = amounts(dice.choice(WANTED))
        locality = {dice.choice(nodes): dice.choice([0, 1 + number]) for number in range(dice.choice([0, 0, 2]))}
        request = LeaseRequest(
            LeaseId(turn.to_bytes(8, "big")), JobId(b"job....."), ProcessId(b"driver.."), wanted,
            strategy=strategy(dice, nodes), origin=dice.choice(nodes), locality=locality,
        )  # fmt: skip
        able = [place for place in places_for(scheduler.nodes, request) if not place.pool.missing(wanted)]
        world.waiting[request.id] = world.requests[request.id] = request
        world.feed(LeaseRequested(request))
        grant = world.granted.get(request.id)
        assert (grant.node if grant else None) == (able[0].node if able else None), (
            f"{request} of {[place.node for place in able]}"
        )
        if grant is None:
            world.cancel(request.id)
        elif dice.random() < 0.3:
            world.release(dice.choice(list(world.granted)))


def node_id(number: int) -> NodeId:
    return NodeId(b"node" + number.to_bytes(4, "big"))


Fields = Callable[[int, int], dict[str, Any]]
WISHES: dict[str, Fields] = {
    "DEFAULT": lambda turn, count: {},
    "SPREAD": lambda turn, count: {"strategy": "SPREAD"},
    "affinity": lambda turn, count: {
        "strategy": {"type": "node_affinity", "node": node_id(turn * 7 % count).hex(), "soft": False}
    },
    "one label": lambda turn, count: {"strategy": {"type": "node_labels", "hard": {"host": str(turn * 7 % count)}}},
    "a rare resource": lambda turn, count: {"wanted": {"rare": UNIT}},
}


@pytest.mark.parametrize("wish", WISHES)
def test_a_decision_costs_the_same_with_ten_nodes_and_with_five_thousand(wish: str) -> None:
    costs = {count: _seconds_a_decision(WISHES[wish], count) for count in (10, 5000)}
    assert costs[5000] < 5 * costs[10], {count: f"{cost * 1e6:.0f} us" for count, cost in costs.items()}


def _seconds_a_decision(fields: Fields, count: int) -> float:
    scheduler = FifoScheduler()
    for number in range(count):
        rare = {"rare": 9} if number % (count // 4) == 0 else {}
        scheduler.handle(NodeAdded(node_id(number), {"CPU": 4, "memory": 8, **rare}, {"host": str(number)}), 0.0)
    serial = iter(range(10**9))

    def ask(**fields: Any) -> LeaseId:
        id = LeaseId(next(serial).to_bytes(8, "big"))
        wanted = fields.pop("wanted", {"CPU": UNIT})
        request = LeaseRequest(id, JobId(b"job....."), ProcessId(b"driver.."), wanted, **fields)
        done = scheduler.handle(LeaseRequested(request), 0.0)
        assert [type(step) for step in done] == [Grant]
        return id

    for _ in range(count * 2 + count // 4):
        ask()
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        for turn in range(200):
            scheduler.handle(LeaseReleased(ask(**fields(turn, count))), 0.0)
        best = min(best, time.process_time() - start)
    return best / 400

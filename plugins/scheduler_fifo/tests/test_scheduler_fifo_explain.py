"""What people read when they ask why something waits."""

from __future__ import annotations

import pytest
from kernel_scheduler_fifo import FifoScheduler
from kernel_scheduler_fifo.scheduler import HISTORY_EVENTS

from kernel.conformance.scheduler_harness import SchedulerHarness
from kernel_spec.ids import NodeId
from kernel_spec.scheduling import LeaseRequested, NodeAdded


@pytest.fixture
def world() -> SchedulerHarness:
    return SchedulerHarness(FifoScheduler())


def test_infeasible_names_resource_amount_and_the_best_node(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 8})
    best = world.add_node({"CPU": 4, "GPU": 2})
    reason = world.explain(world.request({"CPU": 1, "GPU": 3}))
    assert reason.code == "infeasible"
    assert reason.text == (
        f"no node ever has CPU: 1, GPU: 3: it wants GPU: 3, and the most on one node is 2 (node {best.hex()}). "
        "It waits until a node has that much; add one, or ask for less"
    )


def test_infeasible_says_when_a_resource_is_nowhere(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 8})
    assert "it wants blue: 1, and there is none" in world.explain(world.request({"blue": 1})).text


def test_infeasible_says_when_only_the_combination_is_missing(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 8})
    gpus = world.add_node({"CPU": 1, "GPU": 2})
    text = world.explain(world.request({"CPU": 2, "GPU": 2})).text
    assert f"each resource is on some node, all together on none; node {gpus.hex()} lacks CPU: 1" in text


def test_infeasible_says_that_devices_do_not_split(world: SchedulerHarness) -> None:
    world.add_node({"GPU": 4})
    assert "GPU comes in whole devices or shares of one" in world.explain(world.request({"GPU": 1.5})).text


def test_infeasible_names_the_node_that_is_wanted(world: SchedulerHarness) -> None:
    node = world.add_node({"CPU": 1})
    there = {"type": "node_affinity", "node": node.hex(), "soft": False}
    gone = {"type": "node_affinity", "node": "ab" * 8, "soft": False}
    assert f"it wants node {'ab' * 8}, which is not there" in world.explain(world.request({}, strategy=gone)).text
    text = world.explain(world.request({"CPU": 2}, strategy=there)).text
    assert text.startswith(f"node {node.hex()}, the only one allowed, never has CPU: 2: it wants CPU: 2")


def test_without_nodes_everything_is_infeasible(world: SchedulerHarness) -> None:
    reason = world.explain(world.request({"CPU": 1}))
    assert (reason.code, reason.text) == ("infeasible", "it wants CPU: 1, and there is no node yet")


def test_busy_names_the_holders_and_how_much_they_hold(world: SchedulerHarness) -> None:
    node = world.add_node({"CPU": 4})
    world.request({"CPU": 1}, name="load")
    world.request({"CPU": 2}, name="train")
    world.request({"CPU": 1}, name="load")
    reason = world.explain(world.request({"CPU": 2}, name="evaluate"))
    assert reason.code == "busy"
    assert reason.text == (f"it wants CPU: 2: on node {node.hex()} 0 of 4 CPU is free, held by load (2), train (2)")


def test_behind_gives_the_place_in_line_and_why_the_first_waits(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 1})
    world.request({"CPU": 1}, name="train")
    world.request({"CPU": 1}, name="first")
    world.request({"CPU": 1})
    last = world.request({"CPU": 1})
    world.tick(3.0)
    reason = world.explain(last)
    assert reason.code == "behind"
    assert "number 3 in line for CPU: 1" in reason.text
    assert "first, has waited 3.0 s" in reason.text and "held by train (1)" in reason.text


def test_validate_tells_the_story() -> None:
    scheduler = FifoScheduler()
    world = SchedulerHarness(scheduler)
    node = world.add_node({"CPU": 1})
    world.request({"CPU": 1}, name="train")
    scheduler.nodes.nodes[node].pool.available["CPU"] = 5
    with pytest.raises(AssertionError) as caught:
        scheduler.validate()
    story = str(caught.value)
    what, last, first, second = story.splitlines()
    assert "CPU should have 0 units free, has 5" in what and last == "The last 2 events:"
    assert "NodeAdded" in first and first.startswith("  1000.000 ") and "name='train'" in second and "Grant(" in second


def test_the_story_keeps_the_last_events_only(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 1})
    for _ in range(HISTORY_EVENTS + 50):
        world.release(world.request({"CPU": 1}))
    history = world.scheduler.history  # type: ignore[attr-defined]
    assert len(history) == HISTORY_EVENTS


def test_events_of_unknown_kinds_change_nothing() -> None:
    scheduler = FifoScheduler()
    assert scheduler.handle("tomorrow's event", 0.0) == []  # type: ignore[arg-type]
    assert scheduler.handle(NodeAdded(NodeId(b"node...."), {"CPU": 1}), 0.0) == []
    scheduler.validate()
    assert LeaseRequested not in {type(event) for _, event, _ in scheduler.history}

"""Order between shapes, starvation, and the cost of a long queue."""

from __future__ import annotations

import time

import pytest
from kernel_scheduler_fifo import FifoScheduler
from kernel_scheduler_fifo.queues import OVERTAKEN_TIMES
from kernel_scheduler_fifo.reservations import RESERVATION_SECONDS

from kernel.conformance.scheduler_harness import SchedulerHarness
from kernel_spec.ids import JobId, LeaseId, NodeId, ProcessId
from kernel_spec.resources import UNIT
from kernel_spec.scheduling import LeaseReleased, LeaseRequest, LeaseRequested, NodeAdded


@pytest.fixture
def world() -> SchedulerHarness:
    return SchedulerHarness(FifoScheduler())


def test_among_shapes_that_fit_the_oldest_goes_first(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 2})
    running = world.request({"CPU": 2})
    ids = [world.request({"CPU": cpus}) for cpus in (1, 0.5, 1, 0.5)]
    world.release(running)
    assert world.order[1:] == [ids[0], ids[1], ids[3]], "two fronts in order, then what still fits"


def test_a_large_request_starves_no_longer_than_the_limit(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 4})
    running = world.request_many(4, {"CPU": 1})
    large = world.request({"CPU": 4})
    passed = 0
    while large in world.waiting:
        world.request({"CPU": 1})
        world.release(next(id for id in world.granted if id != large))
        passed += 1
        assert passed <= OVERTAKEN_TIMES + len(running) + 1
    assert passed > OVERTAKEN_TIMES


def test_a_large_request_starves_no_longer_than_two_seconds(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 2})
    first = world.request_many(2, {"CPU": 1})
    large = world.request({"CPU": 2})
    world.request({"CPU": 1})
    world.release(first[0])  # the small one passes
    world.tick(2.5)
    late = world.request({"CPU": 1})
    world.release(first[1])
    assert late in world.waiting, "what is freed is kept for the large one"
    reason = world.explain(late)
    assert reason.code == "behind" and "kept for" in reason.text
    world.release(*[id for id in world.granted if id != large])
    assert large in world.granted


def test_resources_that_the_starving_do_not_want_stay_free_for_others(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 2, "blue": 1})
    first = world.request_many(2, {"CPU": 1})
    world.request({"CPU": 2})
    world.request({"CPU": 1})
    world.release(first[0])
    world.tick(2.5)
    assert world.request({"blue": 1}) in world.granted
    assert world.request({}) in world.granted


def test_nothing_is_kept_for_what_an_actor_holds(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 2})
    world.request({"CPU": 1}, for_actor=True)
    small = world.request({"CPU": 1})
    world.request({"CPU": 2})
    for _ in range(OVERTAKEN_TIMES * 2):
        following = world.request({"CPU": 1})
        world.release(small)
        world.tick(0.1)
        assert following in world.granted, "the large one could not run before the actor ends, so nothing is kept"
        small = following


def test_children_of_a_blocked_worker_that_holds_a_device_are_not_held_up(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 2, "GPU": 1})
    parent = world.request({"CPU": 1, "GPU": 1})
    other = world.request({"CPU": 1})
    world.request({"CPU": 1, "GPU": 1}, requester="guest")
    small = world.request({"CPU": 1})
    world.release(other)
    world.tick(2.5)
    world.release(small)
    child = world.request({"CPU": 1}, requester="worker")
    assert child in world.waiting, "the CPU is kept for the guest, who was passed"
    world.block(parent)
    assert child in world.granted, "the parent gives its device back only after its child has run"


def test_a_reservation_ends_after_a_while(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 2})
    first = world.request_many(2, {"CPU": 1})
    world.request({"CPU": 2})
    world.request({"CPU": 1})
    world.release(first[0])
    world.tick(2.5)
    late = world.request({"CPU": 1})
    world.release(first[1])
    assert late in world.waiting
    world.tick(RESERVATION_SECONDS + 1)
    assert late in world.granted


def test_a_soft_affinity_waits_for_its_node_while_that_could_hold_it(world: SchedulerHarness) -> None:
    world.add_node({"CPU": 4})
    wished = world.add_node({"CPU": 1})
    strategy = {"type": "node_affinity", "node": wished.hex(), "soft": True}
    first, second = world.request_many(2, {"CPU": 1}, strategy=strategy)
    assert world.granted[first].node == wished and second in world.waiting
    world.add_node({"blue": 1}, node=wished)
    assert second in world.granted, "the node shrank, so the request may go elsewhere"


def test_an_event_costs_the_same_with_a_hundred_thousand_waiting() -> None:
    costs = {}
    for waiting in (1_000, 100_000):
        scheduler = FifoScheduler()
        scheduler.handle(NodeAdded(NodeId(b"node...."), {"CPU": 8}), 0.0)
        for number in range(8 + waiting):
            scheduler.handle(LeaseRequested(request(number)), 0.0)
        best = float("inf")
        for turn in range(5):
            start = time.process_time()
            for number in range(turn * 200, turn * 200 + 200):
                scheduler.handle(LeaseRequested(request(10**9 + number)), 0.0)
                scheduler.handle(LeaseReleased(request(number).id), 0.0)
            best = min(best, time.process_time() - start)
        costs[waiting] = best / 400
    assert costs[100_000] < 3 * costs[1_000], costs


def request(number: int) -> LeaseRequest:
    id = LeaseId(number.to_bytes(8, "big"))
    return LeaseRequest(id, JobId(b"job....."), ProcessId(b"driver.."), {"CPU": UNIT})

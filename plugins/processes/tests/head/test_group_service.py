"""Placement groups on the head, with a scheduler that does what the test says: who is told what, and in which order."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from kernel.defaults.metadata import LocalMetadataStore
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import number_of, packed
from kernel_processes.protocol import head_messages
from kernel_spec.errors import KernelError, NameTakenError, PlacementGroupRemovedError
from kernel_spec.ids import GroupId, LeaseId, NodeId, ProcessId
from kernel_spec.resources import Allocation, amounts
from kernel_spec.scheduling import (
    Bundle,
    Grant,
    GroupHeld,
    GroupRemoved,
    GroupRequested,
    LeaseHeld,
    LeaseReleased,
    LeaseRequested,
    NodeRemoved,
    PlaceGroup,
    Preempt,
)
from plugins.processes.tests.head import head_bench
from plugins.processes.tests.head.head_bench import CPU, DRIVER, FIRST, GROUP, JOB, OTHER, SECOND, WORKER

BUNDLE = amounts({"CPU": 2})
ACTOR = ProcessId(b"actor--1")


class Bench(head_bench.Bench):
    """A head that is asked for placement groups."""

    def create(self, id: GroupId = GROUP, name: str = "", detached: bool = False, placed: bool = True) -> None:
        if placed:
            self.scheduler.answers[GroupRequested] = [PlaceGroup(id, (lies(0, FIRST), lies(1, SECOND)))]
        hints = pickle.dumps({"priority": 3})
        self.call("create_placement_group", id.hex(), [BUNDLE, BUNDLE], "SPREAD", name, "space", detached, hints)

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pickle.loads(self.head.dispatcher.methods["placement_groups"](None))
        return rows

    def row(self, id: GroupId = GROUP) -> dict[str, Any]:
        rows: list[dict[str, Any]] = pickle.loads(self.call("placement_groups", id.hex()))
        return rows[0]


def lies(index: int, node: NodeId) -> Bundle:
    return Bundle(index, node, Allocation(BUNDLE))


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    bench.join()
    yield bench
    assert bench.ended == [], "what the scheduler said could be done"


def test_a_group_is_asked_for_placed_and_shown(bench: Bench) -> None:
    bench.create(name="gang")
    event = bench.scheduler.received[-1]
    assert isinstance(event, GroupRequested)
    asked = event.request
    assert (asked.id, asked.job, asked.bundles, asked.strategy) == (GROUP, JOB, (BUNDLE, BUNDLE), "SPREAD")
    assert (asked.name, asked.hints, asked.origin) == ("gang", {"priority": 3}, FIRST)
    assert bench.row() == {
        "placement_group_id": GROUP.hex(),
        "name": "gang",
        "namespace": "space",
        "strategy": "SPREAD",
        "state": "CREATED",
        "bundles": {0: {"CPU": 2.0}, 1: {"CPU": 2.0}},
        "bundles_to_node_id": {0: FIRST.hex(), 1: SECOND.hex()},
        "is_detached": False,
        "job_id": JOB.hex(),
        "cause": "",
    }
    found = pickle.loads(bench.call("find_placement_group", "gang", "space"))
    assert found["placement_group_id"] == GROUP.hex()
    assert pickle.loads(bench.call("find_placement_group", "gang", "elsewhere")) is None
    assert bench.call("explain_placement_group", GROUP.hex()) == (
        f"placement group 'gang' is placed: bundle 0 on node {FIRST.hex()[:8]}, 1 on node {SECOND.hex()[:8]}"
    )
    bench.head.observation.deliver()
    assert [(e.kind, e.state) for e in bench.events if e.id == GROUP.hex()] == [("placement_group", "CREATED")]


def test_who_waits_is_told_when_it_is_placed(bench: Bench) -> None:
    bench.create(placed=False)
    assert bench.call("placement_group_ready", GROUP.hex()) is None
    text = f"placement group '{GROUP.hex()}' is PENDING: there is no room"
    assert bench.call("explain_placement_group", GROUP.hex()) == text
    bench.head.groups.placed(GROUP, [lies(0, FIRST)])
    assert bench.answer() is None
    bench.head.groups.placed(GROUP, [lies(1, FIRST)])
    assert bench.answer() == "nothing"
    assert bench.call("placement_group_ready", GROUP.hex()) == "nothing", "it is there already"


def test_who_waits_is_told_that_it_is_removed(bench: Bench) -> None:
    bench.create(name="gang", placed=False)
    bench.call("placement_group_ready", GROUP.hex())
    with pytest.raises(
        PlacementGroupRemovedError, match=r"'gang' is gone: it was removed by kernel.remove_placement_gr"
    ):
        bench.call("remove_placement_group", GROUP.hex())
    assert bench.scheduler.received[-1] == GroupRemoved(GROUP)
    with pytest.raises(PlacementGroupRemovedError, match="is not known"):
        bench.call("placement_group_ready", b"unknown!".hex())


def test_a_taken_name_is_refused(bench: Bench) -> None:
    bench.create(name="gang")
    with pytest.raises(NameTakenError, match="a placement group named 'gang' lives in namespace 'space'"):
        bench.create(GroupId(b"group-02"), name="gang")


def test_requests_name_their_bundle_and_where_their_data_is(bench: Bench) -> None:
    bench.create()
    bench.lease(b"lease-1", granted=False)
    event = bench.scheduler.received[-1]
    assert isinstance(event, LeaseRequested)
    request = event.request
    assert (request.group, request.bundle, request.preemptible, request.origin) == (GROUP, -1, True, FIRST)
    assert request.locality == {SECOND: 5_000_000}


def test_removal_ends_what_is_inside_before_the_scheduler_hears_of_it(bench: Bench) -> None:
    bench.create(name="gang")
    bench.lease(b"running-", served=WORKER)
    bench.lease(b"starting")
    bench.lease(b"waiting-", granted=False)
    bench.lease(b"outside-", served=OTHER, group=False)
    bench.received_by(DRIVER)
    bench.scheduler.received.clear()
    bench.tell(0, head_messages.FROM_PROCESS, DRIVER, (op.CALL, 7, "remove_placement_group", (GROUP.hex(),)))
    failed = {m[1]: pickle.loads(m[2]) for m in bench.received_by(DRIVER) if m[0] == number_of(op.LeaseFailed)}
    assert failed.keys() == {b"starting", b"waiting-"}
    assert {type(error) for error in failed.values()} == {PlacementGroupRemovedError}
    reason = "placement group 'gang' is gone: it was removed by kernel.remove_placement_group()"
    assert str(failed[b"waiting-"]) == f"f() can't run: {reason}"
    assert bench.told(number_of(head_messages.KillWorker)) == [(WORKER, reason)]
    assert sorted(bench.scheduler.kinds()) == ["LeaseCancelled", "LeaseReleased"]
    bench.tell(0, *packed(head_messages.WorkerDied(WORKER, 1, reason, op.DIED)))
    assert packed(op.LeasedWorkerDied(worker=WORKER, cause=reason, fault=op.TAKEN)) in bench.received_by(DRIVER)
    assert bench.scheduler.received[-2:] == [LeaseReleased(LeaseId(b"running-")), GroupRemoved(GROUP)]
    bench.lease(b"too-late", granted=False)
    assert [m[0] for m in bench.received_by(DRIVER)] == [number_of(op.LeaseFailed)]
    assert list(bench.head.lease_manager.leases) == [b"outside-"]


def test_a_preempted_worker_ends_at_once_and_its_holder_may_try_again(bench: Bench) -> None:
    bench.lease(b"lease-1-", served=WORKER, group=False)
    bench.scheduler.answers[LeaseRequested] = [Preempt(LeaseId(b"lease-1-"), "a job of higher rank needs its place")]
    bench.lease(b"lease-2-", granted=False, group=False)
    assert bench.told(number_of(head_messages.KillWorker)) == [(WORKER, "a job of higher rank needs its place")]
    bench.tell(0, *packed(head_messages.WorkerDied(WORKER, 1, "a job of higher rank needs its place", op.DIED)))
    died = [message for message in bench.received_by(DRIVER) if message[0] == number_of(op.LeasedWorkerDied)]
    assert died == [
        packed(op.LeasedWorkerDied(worker=WORKER, cause="a job of higher rank needs its place", fault=op.TAKEN))
    ]
    assert bench.scheduler.received[-1] == LeaseReleased(LeaseId(b"lease-1-"))


def test_preempted_before_it_was_served_it_waits_again(bench: Bench) -> None:
    bench.lease(b"lease-1-", group=False)
    request = bench.head.lease_manager.leases[LeaseId(b"lease-1-")].request
    bench.scheduler.answers[LeaseRequested] = [Preempt(LeaseId(b"lease-1-"), "rank")]
    bench.lease(b"lease-2-", granted=False, group=False)
    assert bench.scheduler.received[-2:] == [LeaseReleased(request.id), LeaseRequested(request)]
    assert bench.told(number_of(head_messages.KillWorker)) == [] and bench.told(head_messages.DROP_WORKER) == [
        (b"lease-1-", False, True)
    ]
    assert bench.head.lease_manager.leases[request.id].grant is None


def test_bundles_on_a_lost_node_are_placed_again(bench: Bench) -> None:
    bench.create(name="gang")
    bench.lease(b"running-", served=WORKER)
    bench.head.remove_node(bench.nodes[1], "no power")
    assert bench.row()["state"] == "RESCHEDULING" and bench.row()["bundles_to_node_id"] == {0: FIRST.hex()}
    assert bench.call("placement_group_ready", GROUP.hex()) is None, "it waits until all of it is there again"
    assert bench.call("explain_placement_group", GROUP.hex()) == (
        f"placement group 'gang' is RESCHEDULING: there is no room (node {SECOND.hex()[:8]} is gone: no power)"
    )
    bench.head.groups.placed(GROUP, [lies(1, FIRST)])
    assert bench.answer() == "nothing" and bench.row()["state"] == "CREATED"
    assert LeaseId(b"running-") in bench.head.lease_manager.leases, "what ran on another node runs on"


def test_a_node_may_be_replaced_before_its_loss_is_told_to_the_end(bench: Bench) -> None:
    bench.create()
    bench.scheduler.answers[NodeRemoved] = [PlaceGroup(GROUP, (lies(1, FIRST),))]
    bench.head.remove_node(bench.nodes[1], "no power")
    assert bench.row()["bundles_to_node_id"] == {0: FIRST.hex(), 1: FIRST.hex()}


def test_groups_end_with_their_program_and_detached_ones_do_not(bench: Bench) -> None:
    bench.create(name="gang")
    bench.create(GroupId(b"group-02"), name="stays", detached=True)
    bench.tell(0, *packed(head_messages.ProcessLeft(DRIVER)))
    states = {one["name"]: (one["state"], one["cause"]) for one in bench.rows()}
    assert states == {"gang": ("REMOVED", "the program that created it ended"), "stays": ("CREATED", "")}


def test_what_an_actor_that_outlives_its_program_made_ends_with_the_actor(bench: Bench) -> None:
    job = bench.head.jobs.detached(JOB, "space")
    bench.tell(0, *packed(head_messages.ProcessJoined(ACTOR, "worker", 1, "", job, "", {})))
    arguments = (GROUP.hex(), [BUNDLE], "PACK", "", "space", False, pickle.dumps({}))
    bench.tell(0, head_messages.FROM_PROCESS, ACTOR, (op.CALL, 7, "create_placement_group", arguments))
    bench.tell(0, *packed(head_messages.ProcessLeft(DRIVER)))
    assert [row["state"] for row in bench.rows()] == ["PENDING"]
    bench.tell(0, *packed(head_messages.ProcessLeft(ACTOR)))
    assert [(row["state"], row["cause"]) for row in bench.rows()] == [("REMOVED", "the actor that created it ended")]


def test_who_is_gone_when_a_group_is_placed_is_told_nothing(bench: Bench) -> None:
    bench.create(placed=False)
    for process in (WORKER, OTHER):
        call = (op.CALL, 7, "placement_group_ready", (GROUP.hex(),))
        bench.tell(0, head_messages.FROM_PROCESS, process, call)
    bench.tell(0, *packed(head_messages.ProcessLeft(WORKER)))
    bench.head.groups.placed(GROUP, [lies(0, FIRST), lies(1, FIRST)])
    assert (len(bench.received_by(WORKER)), len(bench.received_by(OTHER))) == (0, 1)


def test_why_a_group_is_gone_is_explained(bench: Bench) -> None:
    explain = lambda: bench.call("explain_placement_group", GROUP.hex())
    assert explain() == "no such placement group is known (any more)"
    bench.create(name="gang")
    bench.call("remove_placement_group", GROUP.hex())
    assert explain() == "placement group 'gang' is gone: it was removed by kernel.remove_placement_group()"


def test_an_affinity_to_a_lost_node_is_refused_also_for_who_waited(bench: Bench) -> None:
    strategy = {"type": "node_affinity", "node": SECOND.hex(), "soft": False}
    shape = (CPU, pickle.dumps((strategy, {})), b"", True)
    bench.tell(0, head_messages.FROM_PROCESS, DRIVER, (op.REQUEST_LEASE, b"lease-1-", shape, "f", None))
    assert bench.received_by(DRIVER) == []
    bench.head.remove_node(bench.nodes[1], "no power")
    (message,) = bench.received_by(DRIVER)
    assert message[:2] == (number_of(op.LeaseFailed), b"lease-1-")
    error: KernelError = pickle.loads(message[2])
    assert str(error).startswith(f"f() may run only on node {SECOND.hex()}, and that is gone: no power")


@pytest.mark.parametrize(("node", "number"), [(SECOND, 1), (FIRST, 0)], ids=["elsewhere", "on the same node"])
def test_what_a_node_says_of_a_grant_that_was_taken_away_is_not_about_the_next(
    bench: Bench, node: NodeId, number: int
) -> None:
    bench.join()
    bench.lease(b"lease-1-", group=False)
    bench.scheduler.answers[LeaseRequested] = [Grant(LeaseId(b"lease-1-"), node, Allocation(CPU), 0)]
    bench.head.lease_manager.take(LeaseId(b"lease-1-"), "somebody else needs it more")
    bench.tell(0, head_messages.WORKER_FOUND, b"lease-1-", 1, WORKER)
    bench.tell(0, *packed(head_messages.LeaseUnserved(b"lease-1-", 1, pickle.dumps(KernelError("no worker")))))
    assert bench.received_by(DRIVER) == []
    bench.tell(number, head_messages.WORKER_FOUND, b"lease-1-", 2, OTHER)
    assert [(message[0], message[2]) for message in bench.received_by(DRIVER)] == [(op.LEASE_GRANTED, OTHER)]


def test_what_waits_for_the_nodes_of_an_earlier_head_is_explained(bench: Bench) -> None:
    bench.join()
    bench.head.lease_manager.hold()
    bench.lease(b"lease-1-", granted=False, group=False)
    assert "waits for the earlier nodes" in bench.call("explain_lease", b"lease-1-")


class LastingStore(LocalMetadataStore):
    """A store that outlives a head, as that test has it."""

    durable = True


def test_another_head_tells_the_scheduler_of_groups_before_what_is_in_them() -> None:
    store = LastingStore()
    bench = Bench(store)
    bench.join()
    bench.create(name="gang")
    bench.create(GroupId(b"group-02"), name="waits", placed=False)
    bench.lease(b"running-", served=WORKER)
    held = bench.told(head_messages.FIND_WORKER)[0][-1]
    after = Bench(store)
    after.recovery.begin()
    after.head.add_node(after.nodes[0])
    after.process(DRIVER, "driver")
    after.process(WORKER, "worker")
    after.tell(0, *packed(head_messages.GrantedBefore(held, WORKER, False)))
    after.tell(0, head_messages.LEASE_BLOCKED, b"running-", True)
    after.tell(0, *packed(head_messages.AllTold()))
    assert after.scheduler.kinds() == ["NodeAdded"]
    after.head.add_node(after.nodes[1])
    after.tell(1, *packed(head_messages.AllTold()))
    assert after.scheduler.kinds() == ["NodeAdded", "NodeAdded", "GroupHeld", "LeaseHeld", "GroupRequested"]
    told = next(event for event in after.scheduler.received if isinstance(event, GroupHeld))
    assert (told.request.id, [bundle.node for bundle in told.bundles]) == (GROUP, [FIRST, SECOND])
    inside = next(event for event in after.scheduler.received if isinstance(event, LeaseHeld))
    assert inside.blocked and inside.grant.bundle == 0
    assert after.row()["state"] == "CREATED"
    assert after.head.lease_manager.leases_in(GROUP) == [b"running-"]


def test_a_lost_program_takes_its_groups_along_also_while_there_was_no_head() -> None:
    store = LastingStore()
    bench = Bench(store)
    bench.join()
    bench.create(name="gang")
    bench.lease(b"running-", served=WORKER)
    held = bench.told(head_messages.FIND_WORKER)[0][-1]
    after = Bench(store)
    after.recovery.begin()
    for node in after.nodes:
        after.head.add_node(node)
    after.process(WORKER, "worker")
    after.tell(0, *packed(head_messages.GrantedBefore(held, WORKER, False)))
    for number in range(2):
        after.tell(number, *packed(head_messages.AllTold()))
    (row,) = after.rows()
    assert (row["state"], row["cause"]) == ("REMOVED", "the program that created it ended")
    assert after.head.jobs.table.get(JOB).ended > 0 and after.told(number_of(head_messages.JobEnded)) == [(JOB,)] * 2
    after.tell(0, *packed(head_messages.WorkerDied(WORKER, 1, "ended", op.DIED)))
    assert after.scheduler.received[-1] == GroupRemoved(GROUP)

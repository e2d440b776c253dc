"""Who uses the CPUs of a node while workers lend theirs, and which worker may go on."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kernel_processes.head.lent_cpus import CpuTaken, GoOn, LentCpus, ReclaimCpu
from kernel_spec import scheduling as contract
from kernel_spec.ids import GroupId, JobId, LeaseId, NodeId, ProcessId
from kernel_spec.resources import Allocation, amounts

NODE = NodeId(b"node")
GROUP = GroupId(b"group")


class World:
    """A node of four CPUs, or of none where a test gives it a group of as many."""

    def __init__(self, total: float = 4.0) -> None:
        self.cpus = LentCpus()
        self.cpus.see(contract.NodeAdded(NODE, {"CPU": total}))

    def grant(self, id: bytes, cpus: float, for_actor: bool = False, group: GroupId | None = None) -> list[object]:
        allocation = Allocation(amounts({"CPU": cpus}))
        request = contract.LeaseRequest(
            LeaseId(id), JobId(b"job"), ProcessId(b"driver"), allocation.amounts, group=group, for_actor=for_actor
        )
        bundle = 0 if group is not None else -1
        return list(self.cpus.grant(request, contract.Grant(LeaseId(id), NODE, allocation, bundle)))

    def block(self, id: bytes) -> list[object]:
        return list(self.cpus.see(contract.LeaseBlocked(LeaseId(id))))

    def unblock(self, id: bytes) -> list[object]:
        return list(self.cpus.see(contract.LeaseUnblocked(LeaseId(id))))

    def ask(self, id: bytes) -> list[object]:
        self.cpus.ask(LeaseId(id))
        return self.unblock(id)

    def release(self, id: bytes) -> list[object]:
        return list(self.cpus.see(contract.LeaseReleased(LeaseId(id))))

    def place_group(self, cpus: float) -> None:
        bundle = contract.Bundle(0, NODE, Allocation(amounts({"CPU": cpus})))
        self.cpus.see(contract.PlaceGroup(GROUP, (bundle,)))


def told(steps: list[object]) -> Mapping[type, list[bytes]]:
    return {kind: [bytes(s.id) for s in steps if type(s) is kind] for kind in (CpuTaken, GoOn, ReclaimCpu)}  # type: ignore[attr-defined]


def test_who_lends_is_told_when_its_cpu_is_used_and_goes_on_when_that_ends() -> None:
    world = World()
    assert world.grant(b"parent", 4) == world.block(b"parent") == []
    assert world.grant(b"other", 4) == [CpuTaken(LeaseId(b"parent"))]
    assert world.ask(b"parent") == [ReclaimCpu(LeaseId(b"other"))]
    assert world.release(b"other") == [GoOn(LeaseId(b"parent"))]


def test_who_lends_is_told_nothing_while_there_is_room_for_it() -> None:
    world = World()
    world.grant(b"parent", 2)
    world.block(b"parent")
    assert world.grant(b"other", 2) == []
    assert world.unblock(b"parent") == []


def test_several_go_on_one_after_another_in_the_order_in_which_they_asked() -> None:
    world = World()
    for id in (b"a", b"b", b"c"):
        world.grant(id, 4)
        world.block(id)
    world.grant(b"d", 4)
    for id in (b"b", b"c", b"a"):
        world.ask(id)
    assert told(world.release(b"d"))[GoOn] == [b"b"]
    assert told(world.release(b"b"))[GoOn] == [b"c"]
    assert told(world.block(b"c"))[GoOn] == [b"a"], "one that waits again makes room, too"


def test_who_lends_again_and_again_is_told_once_until_it_was_told_to_go_on() -> None:
    world = World()
    world.grant(b"parent", 4)
    world.block(b"parent")
    assert told(world.grant(b"other", 1))[CpuTaken] == [b"parent"]
    for _ in range(3):
        assert world.unblock(b"parent") == world.block(b"parent") == []
    world.release(b"other")
    assert told(world.ask(b"parent"))[GoOn] == [b"parent"]
    world.block(b"parent")
    assert told(world.grant(b"another", 1))[CpuTaken] == [b"parent"]


def test_a_lease_is_asked_back_once() -> None:
    world = World()
    for id in (b"a", b"b"):
        world.grant(id, 2)
        world.block(id)
    world.grant(b"other", 4)
    assert told(world.ask(b"a"))[ReclaimCpu] == [b"other"]
    assert told(world.ask(b"b"))[ReclaimCpu] == []


def test_nobody_waits_for_an_actor_which_keeps_what_it_has() -> None:
    world = World(1.0)
    world.grant(b"parent", 1)
    world.block(b"parent")
    assert told(world.grant(b"actor", 1, for_actor=True))[CpuTaken] == [b"parent"]
    assert told(world.ask(b"parent"))[GoOn] == [b"parent"]


def test_what_an_actor_lends_counts_while_it_waits() -> None:
    world = World(2.0)
    world.grant(b"actor", 1, for_actor=True)
    world.grant(b"parent", 1)
    world.block(b"parent")
    world.block(b"actor")
    assert world.grant(b"other", 1) == []
    assert world.unblock(b"actor") == [CpuTaken(LeaseId(b"parent"))]


def test_a_bundle_has_cpus_of_its_own() -> None:
    world = World()
    world.place_group(2)
    world.grant(b"inside", 2, group=GROUP)
    world.block(b"inside")
    assert world.grant(b"outside", 2) == []
    assert told(world.grant(b"other", 2, group=GROUP))[CpuTaken] == [b"inside"]
    world.ask(b"inside")
    assert told(world.release(b"other"))[GoOn] == [b"inside"]


def test_a_group_that_is_over_gives_its_cpus_back() -> None:
    world = World(2.0)
    world.place_group(1)
    world.grant(b"parent", 1)
    world.block(b"parent")
    world.cpus.see(contract.GroupRemoved(GROUP))
    assert world.grant(b"other", 1) == []


def test_who_went_on_without_waiting_counts() -> None:
    world = World()
    for id in (b"a", b"b"):
        world.grant(id, 4)
        world.block(id)
    assert world.unblock(b"a") == [CpuTaken(LeaseId(b"b"))]


def test_what_ends_while_it_waits_is_forgotten() -> None:
    world = World()
    for id in (b"a", b"b"):
        world.grant(id, 4)
        world.block(id)
    world.grant(b"other", 4)
    world.ask(b"a")
    world.ask(b"b")
    world.release(b"a")
    assert told(world.release(b"other"))[GoOn] == [b"b"]


@pytest.mark.parametrize("blocked", [False, True])
def test_leases_of_an_earlier_head_count(blocked: bool) -> None:
    world = World()
    allocation = Allocation(amounts({"CPU": 4.0}))
    held = contract.LeaseRequest(LeaseId(b"held"), JobId(b"job"), ProcessId(b"driver"), allocation.amounts)
    world.cpus.see(contract.LeaseHeld(held, contract.Grant(held.id, NODE, allocation), blocked))
    world.grant(b"parent", 4)
    steps = world.block(b"parent")
    assert told(steps)[CpuTaken] == ([] if blocked else [b"parent"])


def test_what_was_on_a_node_that_is_gone_is_forgotten() -> None:
    world = World()
    world.grant(b"a", 4)
    world.cpus.see(contract.NodeRemoved(NODE))
    world.cpus.see(contract.NodeAdded(NODE, {"CPU": 4.0}))
    world.grant(b"b", 4)
    assert world.block(b"b") == world.release(b"a") == []
    assert world.unblock(b"b") == []


def test_a_node_whose_total_changes_has_the_new_one() -> None:
    world = World(4.0)
    world.grant(b"parent", 2)
    world.block(b"parent")
    world.grant(b"other", 2)
    assert world.cpus.see(contract.NodeAdded(NODE, {"CPU": 3.0})) == [CpuTaken(LeaseId(b"parent"))]
    assert told(world.ask(b"parent"))[GoOn] == []
    assert world.cpus.see(contract.ResourceChanged(NODE, "blue", 9.0)) == []
    assert world.cpus.see(contract.ResourceChanged(NODE, "CPU", 4.0)) == [GoOn(LeaseId(b"parent"))]


def test_of_several_who_lend_only_those_are_told_who_have_no_room() -> None:
    world = World(4.0)
    for id, cpus in ((b"large", 3), (b"small", 1)):
        world.grant(id, cpus)
        world.block(id)
    assert world.grant(b"other", 2) == [CpuTaken(LeaseId(b"large"))]
    assert world.grant(b"another", 1) == [], "one is told once, and the other has room"
    assert world.grant(b"last", 1) == [CpuTaken(LeaseId(b"small"))]
    assert world.block(b"last") == world.unblock(b"last") == []


def test_what_is_on_other_nodes_stays_when_one_is_gone() -> None:
    world = World(4.0)
    world.grant(b"a", 4)
    world.block(b"a")
    assert world.cpus.see(contract.NodeRemoved(NodeId(b"other"))) == []
    assert world.grant(b"b", 4) == [CpuTaken(LeaseId(b"a"))]


def test_a_lease_counts_once_and_one_without_cpus_not_at_all() -> None:
    world = World(4.0)
    for _ in range(2):
        assert world.grant(b"a", 2) == []
    world.grant(b"nothing", 0)
    world.block(b"a")
    assert world.block(b"nothing") == world.unblock(b"nothing") == world.release(b"nothing") == []
    assert world.grant(b"b", 2) == [], "two CPUs are left for the one who lends"
    assert world.block(b"stranger") == world.unblock(b"stranger") == world.release(b"stranger") == []


def test_a_group_that_nobody_knows_may_be_removed() -> None:
    assert World().cpus.see(contract.GroupRemoved(GROUP)) == []

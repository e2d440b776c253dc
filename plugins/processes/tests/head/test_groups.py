"""Placement groups from request to removal, in every order of events."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle as Known
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kernel_processes.head import groups as control
from kernel_processes.head.groups import (
    CREATED,
    NOBODY,
    PENDING,
    REMOVED,
    RESCHEDULING,
    Dissolve,
    GroupRecord,
    GroupTable,
    PublishGroup,
    Reserve,
)
from kernel_spec.errors import NameTakenError
from kernel_spec.ids import GroupId, JobId, NodeId
from kernel_spec.resources import Allocation
from kernel_spec.scheduling import Bundle, GroupRequest

G = GroupId(b"group")
JOB = JobId(b"job")
HERE, THERE = NodeId(b"here"), NodeId(b"there")


def record(id: bytes = G, name: str = "", owner: bytes = JOB, bundles: int = 2) -> GroupRecord:
    request = GroupRequest(GroupId(id), JOB, ({"CPU": 10_000},) * bundles, name=name)
    return GroupRecord(request, "space", JobId(owner))


def bundle(index: int, node: NodeId = HERE) -> Bundle:
    return Bundle(index, node, Allocation({"CPU": 10_000}))


def made(name: str = "", owner: bytes = JOB) -> GroupTable:
    table = GroupTable()
    assert table.create(record(name=name, owner=owner)) == [Reserve(G)]
    return table


def test_a_group_is_created_when_all_of_it_is_placed() -> None:
    table = made()
    assert table.groups[G].state == PENDING and table.waiting
    assert table.placed(G, [bundle(0)]) == [], "half a group is none"
    assert table.placed(G, [bundle(1, THERE)]) == [PublishGroup(G)]
    assert table.groups[G].state == CREATED and not table.waiting
    table.validate()


def test_bundles_of_a_lost_node_are_placed_again() -> None:
    table = made()
    table.placed(G, [bundle(0), bundle(1, THERE)])
    assert table.node_lost(NodeId(b"another"), "cut off") == []
    assert table.node_lost(THERE, "no power") == [PublishGroup(G)]
    found = table.groups[G]
    assert found.state == RESCHEDULING and table.waiting and list(found.bundles) == [0]
    assert found.cause == f"node {THERE.hex()[:8]} is gone: no power"
    assert table.placed(G, [bundle(1)]) == [PublishGroup(G)]
    assert (found.state, found.cause) == (CREATED, "")
    table.validate()


def test_a_removed_group_is_dissolved_once_and_frees_its_name() -> None:
    table = made("x")
    table.placed(G, [bundle(0), bundle(1)])
    assert table.remove(G, "it was removed") == [Dissolve(G), PublishGroup(G)]
    assert table.remove(G, "again") == [] and table.groups[G].cause == "it was removed"
    assert table.find("space", "x") is None
    assert table.placed(G, [bundle(0)]) == [], "the scheduler's news crossed the removal"
    assert table.node_lost(HERE, "gone") == []
    assert table.remove(GroupId(b"unknown"), "") == []
    table.validate()


def test_a_name_belongs_to_one_living_group() -> None:
    table = made("x")
    with pytest.raises(NameTakenError) as caught:
        table.create(record(b"other", "x"))
    assert str(caught.value) == (
        "a placement group named 'x' lives in namespace 'space'; use get_placement_group('x'), remove that one first, "
        "or take another name"
    )
    table.remove(G, "done")
    assert table.create(record(b"other", "x")) == [Reserve(GroupId(b"other"))]
    assert table.find("space", "x") is table.groups[GroupId(b"other")]
    assert table.find("elsewhere", "x") is None


def test_groups_end_with_their_owner_but_for_detached_ones() -> None:
    table = made()
    table.create(record(b"forever", owner=NOBODY))
    assert table.owner_ended(JobId(b"another"), "") == []
    assert table.owner_ended(JOB, "the program ended") == [Dissolve(G), PublishGroup(G)]
    assert table.groups[GroupId(b"forever")].state == PENDING


def test_the_longest_removed_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "KEPT_REMOVED", 2)
    table = GroupTable()
    for number in range(4):
        table.create(record(b"%d" % number))
        table.remove(GroupId(b"%d" % number), "over")
    table.changed.clear()
    table.forget_removed()
    assert list(table.groups) == [b"2", b"3"] and table.changed == {b"0", b"1"}
    table.validate()


def test_told_twice_is_created_once() -> None:
    table = made("x")
    assert table.create(record(name="x")) == []


def test_another_head_carries_on() -> None:
    before = GroupTable()
    names = (b"waits", b"whole", b"half", b"orphan", b"over")
    for name in names:
        before.create(record(name, name.decode(), owner=b"gone" if name == b"orphan" else JOB))
    for name in (b"whole", b"half", b"over"):
        before.placed(GroupId(name), [bundle(0), bundle(1, THERE if name == b"half" else HERE)])
    before.remove(GroupId(b"over"), "it was removed")
    written = {id: pickle.dumps(before.groups[id]) for id in before.changed}
    after = GroupTable()
    for value in written.values():
        after.restore(pickle.loads(value))
    after.validate()
    held, steps = after.resume({HERE}, {JOB})
    assert {one.id for one in held} == {b"whole", b"half"}
    assert after.groups[GroupId(b"half")].state == RESCHEDULING
    assert Reserve(GroupId(b"waits")) in steps and PublishGroup(GroupId(b"half")) in steps
    assert Dissolve(GroupId(b"over")) in steps, "what ran inside may be running yet"
    assert Dissolve(GroupId(b"orphan")) in steps
    assert after.find("space", "whole") is not None and after.find("space", "over") is None
    after.validate()


class GroupLives(RuleBasedStateMachine):
    """Any order of events; a modelled scheduler places what is reserved and not dissolved."""

    known = Known("known")

    def __init__(self) -> None:
        super().__init__()
        self.table = GroupTable()
        self.count = 0
        self.reserved: set[GroupId] = set()
        self.published: dict[GroupId, str] = {}

    def carry_out(self, steps: list[control.Instruction]) -> None:
        for step in steps:
            group = self.table.groups[step.group]
            if isinstance(step, Reserve):
                assert step.group not in self.reserved
                self.reserved.add(step.group)
            elif isinstance(step, Dissolve):
                self.reserved.remove(step.group)
            else:
                assert self.published.get(step.group) != REMOVED, "nothing comes after the end"
                self.published[step.group] = group.state

    @rule(
        target=known,
        name=st.sampled_from(["", "x", "y"]),
        owner=st.sampled_from([b"a", b"b", NOBODY]),
        bundles=st.integers(1, 3),
    )
    def create(self, name: str, owner: bytes, bundles: int) -> GroupId:
        self.count += 1
        new = record(b"%d" % self.count, name, owner, bundles)
        if name and self.table.find("space", name) is not None:
            with pytest.raises(NameTakenError):
                self.table.create(new)
        else:
            self.carry_out(self.table.create(new))
        return new.id

    @rule(group=known, node=st.sampled_from([HERE, THERE]), one=st.booleans())
    def place(self, group: GroupId, node: NodeId, one: bool) -> None:
        if group in self.reserved:
            there = self.table.groups[group].bundles
            lacks = [i for i in range(len(self.table.groups[group].request.bundles)) if i not in there]
            self.carry_out(self.table.placed(group, [bundle(i, node) for i in lacks[: 1 if one else None]]))

    @rule(node=st.sampled_from([HERE, THERE]))
    def lose(self, node: NodeId) -> None:
        self.carry_out(self.table.node_lost(node, "lost"))

    @rule(group=known)
    def remove(self, group: GroupId) -> None:
        self.carry_out(self.table.remove(group, "removed"))

    @rule(owner=st.sampled_from([b"a", b"b"]))
    def owner_ends(self, owner: bytes) -> None:
        self.carry_out(self.table.owner_ended(JobId(owner), "ended"))

    @invariant()
    def books_add_up(self) -> None:
        self.table.validate()
        for id, group in self.table.groups.items():
            assert (id in self.reserved) == (group.state != REMOVED)
            assert group.state == PENDING or self.published[id] == group.state, "everybody was told"


TestGroupLives = GroupLives.TestCase

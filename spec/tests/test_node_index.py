"""The index finds, by what nodes have and by their labels, what looking at all nodes would have found."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_spec import node_parts
from kernel_spec.holdings import NodePlace
from kernel_spec.ids import NodeId
from kernel_spec.labels import NODE_ID_LABEL
from kernel_spec.node_index import IndexedLedger, NodeIndex
from kernel_spec.placement import all_hold, conditions
from kernel_spec.resources import amounts
from kernel_spec.scheduling import NodeAdded, NodeDraining, NodeRemoved

NODES = 12
MAPPINGS: list[Any] = [
    {"zone": "a"}, {"zone": ["a", "b"]}, {"zone": {"not_in": ["a"]}}, {"zone": {"exists": False}}, {"disk": "ssd"},
    {"zone": "a", "disk": "ssd"}, {"zone": "nowhere"}, {NODE_ID_LABEL: f"{3:016x}"},
    {NODE_ID_LABEL: [f"{number:016x}" for number in (9, 2, 5, 99)]}, {NODE_ID_LABEL: f"{4:016x}", "zone": "b"},
    {NODE_ID_LABEL: {"not_in": [f"{3:016x}"]}}, {},
]  # fmt: skip
numbers = st.integers(0, NODES - 1)
labels = st.fixed_dictionaries({}, optional={"zone": st.sampled_from("abc"), "disk": st.just("ssd")})
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), numbers, labels, st.integers(0, 3)),
        st.tuples(st.just("remove"), numbers),
        st.tuples(st.just("drain"), numbers),
        st.tuples(st.just("take"), numbers),
        st.tuples(st.just("search"), st.sampled_from(MAPPINGS), st.integers(0, 2), st.sampled_from([0.0, 0.5])),
    ),
    max_size=80,
)


def node_id(number: int) -> NodeId:
    return NodeId(number.to_bytes(8, "big"))


class World:
    """A ledger, and in which order its open nodes came."""

    def __init__(self) -> None:
        self.ledger = IndexedLedger()
        self.order: dict[NodeId, None] = {}

    def add(self, number: int, labels: dict[str, str], cpus: int) -> None:
        id = node_id(number)
        self.ledger.apply(NodeAdded(id, {"CPU": cpus}, {**labels, NODE_ID_LABEL: id.hex()}))
        if not self.ledger.nodes[id].draining:
            self.order.setdefault(id)

    def remove(self, number: int) -> None:
        self.ledger.apply(NodeRemoved(node_id(number)))
        self.order.pop(node_id(number), None)

    def drain(self, number: int) -> None:
        self.ledger.apply(NodeDraining(node_id(number)))
        self.order.pop(node_id(number), None)

    def take(self, number: int) -> None:
        node = self.ledger.nodes.get(node_id(number))
        if node is not None and node.pool.acquire(amounts({"CPU": 1})) is not None:
            self.ledger.on_free(node)

    def search(self, mapping: Any, cpus: int, floor: float) -> None:
        """Search, and compare with looking at all nodes."""
        wanted, hard = amounts({"CPU": cpus}), conditions(mapping)
        for index, free in ((self.ledger.free, lambda node: node.pool.available), (self.ledger.could, _total)):
            found = [node.node for node in index.search(wanted, hard, floor, False)]
            assert found == self.expected(wanted, hard, floor, free), mapping

    def expected(self, wanted: Any, hard: Any, floor: float, free: Any) -> list[NodeId]:
        nodes = [self.ledger.nodes[id] for id in self.order]
        able = [node for node in nodes if all(free(node).get(name, 0) >= units for name, units in wanted.items())]
        able = [node for node in able if all_hold(hard, node.labels)]
        return [node.node for node in sorted(able, key=lambda node: max(node.load(), floor))]


def _total(node: NodePlace) -> Any:
    return node.pool.total


def run(steps: list[Any]) -> World:
    world = World()
    for act, *arguments in steps:
        getattr(world, act)(*arguments)
        for index in (world.ledger.free, world.ledger.could):
            index.check(world.ledger.nodes)
    return world


@given(steps=steps)
@settings(max_examples=150)
def test_it_finds_what_looking_at_all_nodes_finds(steps: list[Any]) -> None:
    run(steps)


@given(steps=steps)
@settings(max_examples=50)
def test_it_finds_the_same_with_room_for_few_parts(steps: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_parts, "MOST_PARTS", 1)
        patch.setattr(node_parts, "IDLE_SEARCHES", 3)
        run(steps)


def test_a_part_makes_room_only_when_nobody_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_parts, "MOST_PARTS", 2)
    monkeypatch.setattr(node_parts, "IDLE_SEARCHES", 3)
    world = World()
    world.add(1, {"zone": "a"}, 1)
    index: NodeIndex = world.ledger.free

    def ask(*zones: str) -> list[str]:
        for zone in zones:
            list(index.search({}, conditions({"zone": zone}), 0.0, False))
        return sorted(str(*one) for one, _ in index._parts.trees())

    assert ask(*"abc") == ["zone in (a)", "zone in (b)"], "both were asked for just now"
    assert ask(*"aac") == ["zone in (a)", "zone in (c)"]


def test_a_full_part_costs_no_look_at_its_nodes() -> None:
    """Nodes with room and nodes with the label are everywhere, but none is both."""
    world = World()
    for number in range(256):
        world.add(number, {"zone": "ab"[number % 2]}, number % 2)
    looked_at = []

    class Watched(dict[str, str]):
        def get(self, *arguments: Any) -> Any:
            looked_at.append(arguments)
            return super().get(*arguments)

    wanted, hard = amounts({"CPU": 1}), conditions({"zone": "a"})
    assert list(world.ledger.free.search(wanted, hard, 0.0, False)) == []  # the part is made
    tree = world.ledger.free._parts.find(hard, lambda node: {})
    assert tree is not None
    tree._most[:] = [Watched(most) for most in tree._most]  # type: ignore[arg-type]
    assert list(world.ledger.free.search(wanted, hard, 0.0, False)) == []
    assert len(looked_at) == 1, "the root says so"

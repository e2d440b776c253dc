"""The tree of nodes finds what looking at all nodes would have found."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_spec.holdings import NodePlace
from kernel_spec.ids import NodeId
from kernel_spec.node_tree import NodeTree
from kernel_spec.resources import ResourcePool

names = st.sampled_from(["CPU", "GPU", "blue"])
has = st.dictionaries(names, st.integers(-2, 4))
loads = st.sampled_from([0, 0.2, 0.5, 0.9])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 20), has, loads),
        st.tuples(st.just("update"), st.integers(0, 20), has, loads),
        st.tuples(st.just("remove"), st.integers(0, 20), st.just({}), st.just(0)),
    ),
    max_size=60,
)


@given(
    steps=steps,
    alternatives=st.lists(st.dictionaries(names, st.integers(1, 4)), min_size=1, max_size=2),
    floor=st.sampled_from([0.0, 0.5]),
)
@settings(max_examples=200)
def test_a_tree_finds_what_looking_at_all_nodes_finds(
    steps: list[tuple[str, int, dict[str, int], float]], alternatives: list[dict[str, int]], floor: float
) -> None:
    tree = NodeTree()
    model: dict[NodeId, tuple[dict[str, int], float]] = {}
    for act, number, has, load in steps:
        id = NodeId(bytes([number]))
        if act == "put":
            model[id] = has, load
            tree.put(NodePlace(id, ResourcePool({})), has, load)
        elif act == "remove":
            model.pop(id, None)
            tree.remove(id)
        elif id in model:
            model[id] = {**model[id][0], **has}, load
            tree.update(id, has, load)
    expected = [
        (max(load, floor), place, id)
        for needs in alternatives
        for place, (id, (has, load)) in enumerate(model.items())
        if all(has.get(name, 0) >= units for name, units in needs.items())
    ]
    found = [node.node for node in tree.search([tuple(needs.items()) for needs in alternatives], floor)]
    assert sorted(found) == sorted(id for _, _, id in expected)
    loads = [max(model[id][1], floor) for id in found]
    assert loads == sorted(loads), "the least loaded come first"
    if len(alternatives) == 1:
        assert found == [id for _, _, id in sorted(expected)], "equals come in the order in which they were put"
    sums = {name: sum(max(has.get(name, 0), 0) for has, _ in model.values()) for name in ("CPU", "GPU", "blue")}
    assert {name: tree.sums.get(name, 0) for name in sums} == sums

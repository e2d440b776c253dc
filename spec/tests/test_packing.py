"""Groups are packed whole or not at all, as their strategy says, and whenever it can be done."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_spec.ids import NodeId
from kernel_spec.packing import Misfit, pack, total_of
from kernel_spec.resources import UNIT, Amounts, ResourcePool
from kernel_spec.scheduling import GROUP_STRATEGIES, PACK, SPREAD, STRICT_PACK, STRICT_SPREAD

Pools = dict[NodeId, ResourcePool]
wants = st.fixed_dictionaries({}, optional={"CPU": st.integers(1, 4), "GPU": st.integers(1, 2), "blue": st.just(1)})
totals = st.fixed_dictionaries({}, optional={"CPU": st.integers(1, 6), "GPU": st.integers(1, 3), "blue": st.just(1)})


def pools_of(*totals: dict[str, float]) -> Pools:
    return {NodeId(f"node{number:04}".encode()): ResourcePool(total) for number, total in enumerate(totals)}


def units(bundles: list[dict[str, float]]) -> dict[int, Amounts]:
    return {n: {name: int(x * UNIT) for name, x in bundle.items()} for n, bundle in enumerate(bundles)}


def nodes_of(bundles: list[dict[str, float]], strategy: str, pools: Pools, beside: list[NodeId] | None = None) -> str:
    """Return the last digits of the bundles' nodes, or why they have none."""
    packed = pack(units(bundles), strategy, pools, beside or [])
    return packed.text if isinstance(packed, Misfit) else "".join(bundle.node.decode()[-1] for bundle in packed)


def exists(bundles: dict[int, Amounts], strategy: str, pools: Pools, beside: list[NodeId]) -> bool:
    """Return whether there is any way, by trying all of them."""
    for choice in itertools.product(pools, repeat=len(bundles)):
        if strategy == STRICT_PACK and len({*choice, *beside}) > 1:
            continue
        if strategy == STRICT_SPREAD and len({*choice, *beside}) < len(choice) + len(beside):
            continue
        rest = {node: pool.copy() for node, pool in pools.items()}
        if all(rest[node].acquire(wanted) for node, wanted in zip(choice, bundles.values(), strict=True)):
            return True
    return False


@given(
    nodes=st.lists(totals, min_size=1, max_size=4),
    bundles=st.lists(wants, min_size=1, max_size=4),
    strategy=st.sampled_from(GROUP_STRATEGIES),
    others=st.lists(st.integers(0, 3), max_size=1),
)
def test_a_group_is_packed_exactly_when_it_can_be(
    nodes: list[dict[str, float]], bundles: list[dict[str, float]], strategy: str, others: list[int]
) -> None:
    pools = pools_of(*nodes)
    beside = [list(pools)[number] for number in others if number < len(pools)]
    exact = units(bundles)
    possible = exists(exact, strategy, pools, beside)
    before = {node: dict(pool.available) for node, pool in pools.items()}
    packed = pack(exact, strategy, pools, beside)
    for pool in pools.values():
        pool.validate()
    if isinstance(packed, Misfit):
        assert not possible, f"{packed.text}, but there is a way"
        assert {node: pool.available for node, pool in pools.items()} == before, "nothing is taken"
        assert packed.text and (packed.bundle == -1 or packed.bundle in exact)
        return
    assert [bundle.index for bundle in packed] == list(exact)
    assert all(bundle.allocation.amounts == exact[bundle.index] for bundle in packed)
    chosen = [bundle.node for bundle in packed]
    assert strategy != STRICT_PACK or len({*chosen, *beside}) == 1
    assert strategy != STRICT_SPREAD or len({*chosen, *beside}) == len(chosen) + len(beside)
    for bundle in packed:
        pools[bundle.node].release(bundle.allocation)
    assert {node: pool.available for node, pool in pools.items()} == before


def test_pack_fills_few_nodes_and_the_first_among_equals() -> None:
    assert nodes_of([{"CPU": 1}] * 3, PACK, pools_of({"CPU": 2}, {"CPU": 4}, {"CPU": 4})) == "111"
    assert nodes_of([{"CPU": 2}] * 3, PACK, pools_of({"CPU": 2}, {"CPU": 4})) == "110"
    pools = pools_of({"CPU": 4}, {"CPU": 1})
    assert nodes_of([{"CPU": 1}] * 2, PACK, pools, beside=[list(pools)[1]]) == "10", "beside the rest of it first"


def test_spread_takes_as_many_nodes_as_it_can() -> None:
    assert nodes_of([{"CPU": 1}] * 3, SPREAD, pools_of({"CPU": 4}, {"CPU": 4}, {"CPU": 4})) == "012"
    assert sorted(nodes_of([{"CPU": 1}] * 4, SPREAD, pools_of({"CPU": 4}, {"CPU": 4}))) == list("0011")
    pools = pools_of({"CPU": 4}, {"CPU": 4})
    assert nodes_of([{"CPU": 1}], SPREAD, pools, beside=[next(iter(pools))]) == "1"


def test_a_strategy_that_is_not_known_packs() -> None:
    assert nodes_of([{"CPU": 1}] * 2, "TOMORROW", pools_of({"CPU": 2}, {"CPU": 2})) == "00"


@pytest.mark.parametrize(
    ("bundles", "strategy", "text"),
    [
        ([{"CPU": 1}, {"GPU": 1}], PACK, "no node has room for bundle 1 (GPU: 1)"),
        (
            [{"CPU": 3}, {"CPU": 3}],
            STRICT_PACK,
            "no node has room for all 2 bundles together (CPU: 6), as STRICT_PACK wants",
        ),
        (
            [{"CPU": 1}] * 3,
            STRICT_SPREAD,
            "STRICT_SPREAD wants a node of its own for each of 3 bundles, and 2 nodes have room for any of them",
        ),
        (
            [{"CPU": 4}] * 2,
            STRICT_SPREAD,
            "STRICT_SPREAD wants a node of its own for each of 2 bundles, and 1 node has room for any of them",
        ),
        ([{"CPU": 2}] * 4, PACK, "each of the 4 bundles has room somewhere, but all of them together have not"),
        ([{"CPU": 2}] * 4, SPREAD, "each of the 4 bundles has room somewhere, but all of them together have not"),
    ],
)
def test_a_misfit_says_why(bundles: list[dict[str, float]], strategy: str, text: str) -> None:
    assert nodes_of(bundles, strategy, pools_of({"CPU": 4}, {"CPU": 2})) == text


def test_a_misfit_beside_others_says_so() -> None:
    pools = pools_of({"CPU": 4}, {"CPU": 2})
    first, second = pools
    assert nodes_of([{"CPU": 4}], STRICT_PACK, pools, [second]) == (
        "the node that holds the rest of the group has not room for all 1 bundles together (CPU: 4), "
        "as STRICT_PACK wants"
    )
    assert nodes_of([{"CPU": 1}], STRICT_SPREAD, pools, [first, second]) == (
        "STRICT_SPREAD wants a node of its own for each of 1 bundles, and 0 other nodes have room for any of them"
    )


@pytest.mark.parametrize("strategy", [PACK, SPREAD, STRICT_SPREAD])
def test_a_thousand_bundles_are_packed(strategy: str) -> None:
    pools = pools_of(*[{"CPU": 1 + number % 3} for number in range(1000)])
    packed = pack(units([{"CPU": 1}] * 1000), strategy, pools)
    assert not isinstance(packed, Misfit) and len(packed) == 1000


def test_total_of_adds_up() -> None:
    assert total_of([{"CPU": 1, "GPU": 2}, {"CPU": 3}]) == {"CPU": 4, "GPU": 2}

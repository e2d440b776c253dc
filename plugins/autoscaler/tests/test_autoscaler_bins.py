"""Placing needs into what is free: equal nodes at once, conditions, shares of devices."""

from __future__ import annotations

import random

import pytest
from kernel_autoscaler.core.bins import Bin, Need, hardest_first, largest_of, place, whole_devices

from kernel_spec.placement import placement_of
from kernel_spec.resources import Amounts, amounts


@pytest.mark.parametrize("seed", range(200))
def test_nodes_are_never_filled_with_more_than_they_have_and_nothing_is_lost(seed: int) -> None:
    dice = random.Random(seed)
    bins = [
        Bin(
            amounts({"CPU": dice.randrange(9), "GPU": dice.randrange(3)}),
            count=count,
            ids=tuple(map(str, range(count))),
        )
        for count in (dice.randrange(1, 9) for _ in range(4))
    ]
    total, nodes = amount(bins), sum(bin.count for bin in bins)
    needs = [
        Need(amounts({"CPU": dice.choice([0.5, 1, 3]), "GPU": dice.choice([0, 0, 1])}), dice.randrange(1, 30))
        for _ in range(3)
    ]
    left = place(bins, needs)
    assert all(units >= 0 for bin in bins for units in bin.free.values())
    assert sum(bin.count for bin in bins) == nodes and all(len(bin.ids) == bin.count for bin in bins)
    placed = sum(need.wanted["CPU"] * need.count for need in needs) - sum(one.wanted["CPU"] * one.count for one in left)
    assert total - amount(bins) == placed
    for one in left:
        assert all(
            bin.free.get("CPU", 0) < one.wanted["CPU"] or bin.free.get("GPU", 0) < one.wanted.get("GPU", 0)
            for bin in bins
        )


def amount(bins: list[Bin]) -> int:
    return sum(bin.free.get("CPU", 0) * bin.count for bin in bins)


def test_equal_nodes_are_split_only_as_far_as_they_become_different() -> None:
    bins = [Bin(amounts({"CPU": 4}), count=10_000, ids=tuple(map(str, range(10_000))))]
    assert place(bins, [Need(amounts({"CPU": 1}), 4_002)]) == []
    assert [(bin.count, bin.free["CPU"] // 10_000, bin.used) for bin in bins] == [
        (1_000, 0, True), (1, 2, True), (8_999, 4, False),
    ]  # fmt: skip


def test_the_first_bins_are_filled_first_and_conditions_hold() -> None:
    bins = [Bin(amounts({"CPU": 1}), {"zone": "a"}), Bin(amounts({"CPU": 1}), {"zone": "b"})]
    there = placement_of({"type": "node_labels", "hard": {"zone": "b"}})
    assert place(bins, [Need(amounts({"CPU": 1}), 2, there)])[0].count == 1
    assert [bin.used for bin in bins] == [False, True]


def test_pieces_that_are_apart_share_no_node() -> None:
    bins = [Bin(amounts({"CPU": 8}), count=2)]
    needs = [Need(amounts({"CPU": 1}), 1, apart="gang"), Need(amounts({"CPU": 2}), 2, apart="gang")]
    assert [one.count for one in place(bins, needs)] == [1]
    assert place(bins, [Need(amounts({"CPU": 1}), 2, apart="other")]) == []


@pytest.mark.parametrize(("share", "per_device"), [(0.3, 3), (0.5, 2), (0.6, 1), (1.0, 1)])
def test_as_many_shares_of_a_device_fit_as_do_on_separate_devices(share: float, per_device: int) -> None:
    wanted = whole_devices(amounts({"GPU": share}), ["GPU"])
    bins = [Bin(amounts({"GPU": 2}))]
    assert place(bins, [Need(wanted, 100)])[0].count == 100 - 2 * per_device


def test_what_is_hardest_to_place_comes_first() -> None:
    largest: Amounts = largest_of([amounts({"CPU": 8}), amounts({"GPU": 4})])
    small, big, rare = (Need(amounts(wanted)) for wanted in ({"CPU": 1}, {"CPU": 8}, {"TPU": 1}))
    apart = Need(amounts({"CPU": 1}), apart="gang")
    assert hardest_first([small, big, rare, apart], largest) == [apart, rare, big, small]

"""Which machines are bought for what is needed: against the bound of the linear program, and all that is possible."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from kernel_autoscaler.core.bins import Need
from kernel_autoscaler.core.covering import Pattern, cover
from kernel_autoscaler.core.kinds import Kind
from kernel_autoscaler.core.packing import Purchase, cheapest

from kernel_spec.placement import placement_of
from kernel_spec.resources import amounts

GIB = 2.0**30
MACHINES = [
    ("m.large", 2, 8, 0, 0.096), ("m.xlarge", 4, 16, 0, 0.192), ("m.4xlarge", 16, 64, 0, 0.768),
    ("c.2xlarge", 8, 16, 0, 0.34), ("c.9xlarge", 36, 72, 0, 1.53), ("r.2xlarge", 8, 64, 0, 0.504),
    ("g.xlarge", 4, 16, 1, 0.526), ("g.12xlarge", 48, 192, 4, 3.912),
]  # fmt: skip
KINDS = [
    Kind(name, amounts({"CPU": cpu, "memory": gib * GIB, "GPU": gpu}), price=p) for name, cpu, gib, gpu, p in MACHINES
]


def drawn(seed: int, classes: int, total: int) -> list[Need]:
    dice = random.Random(seed)
    shares = [dice.random() for _ in range(classes)]
    return [
        Need(
            amounts(
                {
                    "CPU": dice.choice([0.5, 1, 1, 2, 2, 3, 4, 6, 8, 12]),
                    "memory": dice.choice([0.5, 1, 2, 4, 4, 8, 12, 16]) * GIB,
                    "GPU": dice.choice([0] * 7 + [1, 1, 0.5]),
                }
            ),
            max(1, round(total * share / sum(shares))),
        )
        for share in shares
    ]


def check(needs: list[Need], kinds: list[Kind], purchase: Purchase) -> None:
    """Check that each machine holds what is put on it, and that all is put somewhere or left."""
    resources = {kind.name: kind.resources for kind in kinds}
    placed = [0] * len(needs)
    for pattern, count in purchase.machines.items():
        used: dict[str, int] = {}
        for row, pieces in enumerate(pattern.pieces):
            placed[row] += pieces * count
            for name, units in needs[row].wanted.items():
                used[name] = used.get(name, 0) + pieces * units
        assert all(units <= resources[pattern.kind].get(name, 0) for name, units in used.items())
    assert [need.count for need in needs] == [a + b for a, b in zip(placed, purchase.left, strict=True)]


def bound(needs: list[Need]) -> float:
    """Return a price below which no purchase is: that of the scarcest resource alone, bought where it is cheapest."""
    totals: dict[str, int] = {}
    for need in needs:
        for name, units in need.wanted.items():
            totals[name] = totals.get(name, 0) + units * need.count
    return max(
        units * min(kind.cost / kind.resources[name] for kind in KINDS if kind.resources.get(name))
        for name, units in totals.items()
    )


@pytest.mark.parametrize("seed", range(12))
def test_a_thousand_pieces_cost_little_more_than_they_must(seed: int) -> None:
    needs = drawn(seed, 10, 1000)
    purchase = cheapest(needs, KINDS)
    check(needs, KINDS, purchase)
    assert not any(purchase.left)
    assert bound(needs) <= purchase.cost + 1e-9
    fractions = cheapest([Need(need.wanted, need.count * 1000) for need in needs], KINDS).cost / 1000
    assert purchase.cost <= fractions * 1.03, "a thousand times as many pieces hardly need rounding: that is the bound"


@pytest.mark.parametrize("seed", range(25))
def test_few_pieces_cost_at_most_one_machine_more_than_the_best_of_all_purchases(seed: int) -> None:
    dice = random.Random(seed)
    kinds = [Kind("a", amounts({"CPU": 2}), price=1.0), Kind("b", amounts({"CPU": 5}), price=2.2)]
    needs = [Need(amounts({"CPU": size}), dice.randrange(1, 4)) for size in dice.sample([1, 2, 3, 4], 2)]
    purchase = cheapest(needs, kinds)
    check(needs, kinds, purchase)
    sizes = [size // 10_000 for need in needs for size in [need.wanted["CPU"]] * need.count]
    best = min(a * 1.0 + b * 2.2 for a, b in itertools.product(range(7), range(7)) if fit(sizes, [2] * a + [5] * b))
    assert best - 1e-9 <= purchase.cost <= best + 1.0 + 1e-9


def fit(sizes: list[int], bins: list[int]) -> bool:
    """Return whether all sizes fit into the bins, by trying everything."""
    if not sizes:
        return True
    for place, room in enumerate(bins):
        if sizes[0] <= room and room not in bins[:place]:
            bins[place] -= sizes[0]
            done = fit(sizes[1:], bins)
            bins[place] += sizes[0]
            if done:
                return True
    return False


def test_a_hundred_thousand_pieces_are_a_matter_of_kinds_not_of_pieces() -> None:
    needs = drawn(1, 30, 100_000)
    purchase = cheapest(needs, KINDS)
    check(needs, KINDS, purchase)
    assert not any(purchase.left)


def test_what_no_kind_holds_is_left_and_the_rest_is_bought() -> None:
    needs = [Need(amounts({"CPU": 100}), 3), Need(amounts({"CPU": 2}), 2), Need(amounts({"TPU": 1}), 1)]
    purchase = cheapest(needs, KINDS)
    assert purchase.left == [3, 0, 1] and sum(purchase.counts().values()) >= 1


def test_no_more_is_bought_than_there_is_room_for() -> None:
    kinds = [Kind("cheap", amounts({"CPU": 4}), price=0.1), Kind("dear", amounts({"CPU": 4}), price=1.0)]
    room = {"cheap": 2, "dear": 1}
    purchase = cheapest([Need(amounts({"CPU": 1}), 20)], kinds, lambda kind, bought: room[kind] - bought.get(kind, 0))
    assert purchase.counts() == {"cheap": 2, "dear": 1} and purchase.left == [8]


def test_a_kind_that_is_not_to_be_had_is_passed_over() -> None:
    kinds = [Kind("cheap", amounts({"CPU": 4}), price=0.1), Kind("dear", amounts({"CPU": 4}), price=1.0)]
    purchase = cheapest([Need(amounts({"CPU": 4}), 2)], kinds, lambda kind, _: 0 if kind == "cheap" else math.inf)
    assert purchase.counts() == {"dear": 2}


def test_conditions_on_labels_are_kept() -> None:
    kinds = [Kind("a", amounts({"CPU": 4}), {"zone": "a"}, 0.1), Kind("b", amounts({"CPU": 4}), {"zone": "b"}, 0.2)]
    there = placement_of({"type": "node_labels", "hard": {"zone": "b"}})
    assert cheapest([Need(amounts({"CPU": 1}), 8, there)], kinds).counts() == {"b": 2}
    nowhere = placement_of({"type": "node_labels", "hard": {"zone": "c"}})
    assert cheapest([Need(amounts({"CPU": 1}), 8, nowhere)], kinds).left == [8]


def test_pieces_that_are_to_be_apart_get_a_machine_each() -> None:
    kinds = [Kind("large", amounts({"CPU": 16}), price=1.0), Kind("small", amounts({"CPU": 2}), price=0.2)]
    needs = [Need(amounts({"CPU": 1}), 3, apart="gang"), Need(amounts({"CPU": 2}), 1, apart="gang")]
    assert cheapest(needs, kinds).counts() == {"small": 4}


def test_what_wants_nothing_needs_one_machine() -> None:
    assert sum(cheapest([Need({}, 5)], KINDS).counts().values()) == 1


def test_a_cover_is_the_cheapest_one() -> None:
    patterns = [Pattern("a", (2, 0), 1.0), Pattern("b", (0, 1), 1.0), Pattern("both", (2, 1), 1.5)]
    found = cover([4, 2], patterns[:2], lambda worth: patterns)
    assert found.cost == pytest.approx(3.0) and found.times == ((patterns[2], pytest.approx(2.0)),)
    assert sum(price * count for price, count in zip(found.worth, (4, 2), strict=True)) == pytest.approx(3.0)

"""What strategies mean, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from kernel_spec.placement import (
    DEFAULT,
    SPREAD,
    Placement,
    bundle_of,
    check_strategy,
    conditions,
    has_devices,
    load,
    placement_of,
)
from kernel_spec.resources import ResourcePool

NODE = "ab" * 8


@pytest.mark.parametrize(
    ("condition", "holding", "failing"),
    [
        ("a", ["a"], ["b", None]),
        (["a", "b"], ["a", "b"], ["c", None]),
        ([], [], ["a", None]),
        ({"in": ["a"]}, ["a"], ["b", None]),
        ({"not_in": ["a"]}, ["b", None], ["a"]),
        ({"exists": True}, ["a", ""], [None]),
        ({"exists": False}, [None], ["a", ""]),
        ({"exists": None, "not_in": ["a"]}, ["b", None], ["a"]),
        ({"exists": True, "not_in": ["a"]}, ["b"], ["a", None]),
        ({"in": ["a", "b"], "not_in": ["b"]}, ["a"], ["b", None]),
    ],
)
def test_conditions(condition: Any, holding: list[str | None], failing: list[str | None]) -> None:
    for value in (*holding, *failing):
        labels = {"other": "x"} | ({"zone": value} if value is not None else {})
        suits = Placement(hard=conditions({"zone": condition})).suits(labels)
        assert suits == (value in holding), f"{condition} on {labels}"


def test_all_conditions_must_hold() -> None:
    placement = Placement(hard=conditions({"zone": "a", "disk": ["ssd", "nvme"]}))
    assert placement.suits({"zone": "a", "disk": "nvme"})
    assert not placement.suits({"zone": "a", "disk": "hdd"})
    assert " and ".join(map(str, placement.hard)) == "disk in (nvme, ssd) and zone in (a)"


def test_conditions_say_what_they_are() -> None:
    texts = [str(*conditions({"zone": given})) for given in ({"not_in": ["a"]}, {"exists": True}, {"exists": False})]
    assert texts == ["zone not in (a)", "a label zone", "no label zone"]


def test_strategies_are_understood() -> None:
    assert (placement_of("DEFAULT"), placement_of("SPREAD"), placement_of("tomorrow")) == (DEFAULT, SPREAD, DEFAULT)
    affinity = placement_of({"type": "node_affinity", "node": NODE, "soft": True})
    assert (affinity.node, affinity.soft) == (bytes.fromhex(NODE), True)
    labels = placement_of({"type": "node_labels", "hard": {"zone": "a"}, "soft": {"disk": "ssd"}})
    assert labels == placement_of({"type": "node_labels", "hard": {"zone": ["a"]}, "soft": {"disk": {"in": ["ssd"]}}})
    assert len({labels, affinity, DEFAULT, SPREAD}) == 4, "a placement can be a key"
    assert placement_of({"type": "tomorrow", "word": 1}) == DEFAULT


@pytest.mark.parametrize(
    ("strategy", "text"),
    [
        ({"type": "node_affinity"}, "a node is given by its id, 16 hexadecimal digits, not None"),
        ({"type": "node_affinity", "node": "abc"}, "a node is given by its id, 16 hexadecimal digits, not 'abc'"),
        (
            {"type": "node_affinity", "node": NODE, "hard": 1},
            "a node_affinity strategy has 'node', 'soft', 'labels', not hard",
        ),
        (
            {"type": "node_labels", "hard": "zone"},
            "conditions on labels must be a mapping of label to value, not 'zone'",
        ),
        ({"type": "node_labels", "soft": {"a": 3}}, "label 'a': values must be a string or a list of strings, not 3"),
        (
            {"type": "node_labels", "hard": {"a": {"is": "b"}}},
            "label 'a': a condition has \"in\", \"not_in\" or \"exists\", not {'is': 'b'}",
        ),
        (
            {"type": "node_labels", "hard": {"a": {"exists": "b"}}},
            "label 'a': \"exists\" must be True or False, not 'b'",
        ),
        ({"type": "placement_group", "group": 1}, "a group is given by its id, 16 hexadecimal digits, not 1"),
        (
            {"type": "placement_group", "group": NODE, "bundle": "a"},
            "a bundle is given by its number, or -1 for any, not 'a'",
        ),
    ],
)
def test_what_is_malformed_says_why(strategy: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError) as caught:
        check_strategy(strategy)
    assert str(caught.value) == text
    if strategy["type"] != "placement_group":
        assert placement_of(strategy).problem == text
        assert not placement_of(strategy).suits({}), "what can't be understood goes nowhere"


def test_bundles_are_named_by_a_strategy() -> None:
    group = bytes.fromhex(NODE)
    assert bundle_of({"type": "placement_group", "group": NODE, "bundle": 2}) == (group, 2)
    assert bundle_of({"type": "placement_group", "group": NODE, "capture_child_tasks": True}) == (group, -1)
    assert bundle_of("SPREAD") is None and bundle_of({"type": "node_affinity", "node": NODE}) is None


def test_the_scarcest_resource_says_how_full_a_node_is() -> None:
    pool = ResourcePool({"CPU": 4, "memory": 100, "GPU": 1, "blue": 1})
    assert load(pool) == 0 and has_devices(pool) and not has_devices(ResourcePool({"CPU": 1}))
    pool.acquire({"CPU": 10_000, "GPU": 10_000, "blue": 10_000})
    assert load(pool) == 0.25, "devices and custom resources make no node full"
    pool.acquire({"memory": 600_000})
    assert load(pool) == pytest.approx(0.6)
    pool.lend("CPU", 10_000)
    pool.reclaim("CPU", 60_000)
    assert load(pool) == pytest.approx(1.5), "overcommitted"

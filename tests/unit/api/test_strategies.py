"""Scheduling strategies as users write them, on their way to the scheduler."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import kernel
from kernel.api.options import TASK, check_options, strategy_of
from kernel.exceptions import OptionError
from kernel_spec.placement import bundle_of, placement_of

NODE = "ab" * 8
GROUP = kernel.PlacementGroup(NODE, [{"CPU": 1}] * 3)
Inside = kernel.PlacementGroupSchedulingStrategy
Affinity = kernel.NodeAffinitySchedulingStrategy
Labels = kernel.NodeLabelSchedulingStrategy


def test_strategies_become_plain_values() -> None:
    affinity = strategy_of({"scheduling_strategy": Affinity(NODE, soft=True)})
    assert affinity == {"type": "node_affinity", "node": NODE, "soft": True}
    labels = strategy_of({"scheduling_strategy": Labels({"zone": "a"}, soft={"disk": ["ssd"]})})
    assert labels == {"type": "node_labels", "hard": {"zone": "a"}, "soft": {"disk": ["ssd"]}}
    inside = strategy_of({"scheduling_strategy": Inside(GROUP, 2, placement_group_capture_child_tasks=True)})
    assert inside == {"type": "placement_group", "group": NODE, "bundle": 2, "capture_child_tasks": True}
    assert bundle_of(inside) == (bytes.fromhex(NODE), 2)
    assert not any(placement_of(each).problem for each in (affinity, labels))
    assert strategy_of({}) == "", "nothing was said: a placement group may capture it"
    assert strategy_of({"scheduling_strategy": Inside(None)}) == "DEFAULT"


def test_label_selectors_become_part_of_the_strategy() -> None:
    zone = {"label_selector": {"zone": "in(a, b)", "disk": "!hdd"}}
    hard = {"zone": {"in": ["a", "b"]}, "disk": {"not_in": ["hdd"]}}
    assert strategy_of(zone) == {"type": "node_labels", "hard": hard}
    assert strategy_of({**zone, "scheduling_strategy": "SPREAD"}) == {
        "type": "node_labels",
        "spread": True,
        "hard": hard,
    }
    affinity = strategy_of({**zone, "scheduling_strategy": Affinity(NODE, False)})
    assert affinity == {"type": "node_affinity", "node": NODE, "soft": False, "labels": hard}
    fallback = strategy_of({**zone, "fallback_strategy": [{"label_selector": {"zone": "c"}}]})
    assert fallback == {"type": "node_labels", "choices": [hard, {"zone": ["c"]}]}
    assert not any(placement_of(each).problem for each in (affinity, fallback))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"label_selector": {"zone": "in()"}}, "label_selector: the condition on label 'zone' must be"),
        ({"label_selector": {"zone": "!!a"}}, "where a value has up to 63 letters"),
        ({"label_selector": {"zone": 1}}, 'must be "a", "!a", "in(a, b)" or "!in(a, b)"'),
        ({"label_selector": {"zone": "a" * 64}}, "where a value has up to 63 letters"),
        ({"label_selector": {"-zone": "a"}}, "'-zone' is not a name of a label"),
        ({"label_selector": {"a..b/zone": "a"}}, "the part before the / must be like example.com"),
        ({"label_selector": "zone=a"}, "a label selector is a mapping of label to condition"),
        ({"fallback_strategy": [{}]}, "fallback_strategy: each choice must be"),
        ({"fallback_strategy": [{"num_cpus": 1}]}, "fallback_strategy: each choice must be"),
        ({"fallback_strategy": {"label_selector": {}}}, "fallback_strategy must be a list such as"),
        ({"fallback_strategy": [{"label_selector": {"a": "in("}}]}, "the condition on label 'a' must be"),
        (
            {"label_selector": {"zone": "a"}, "scheduling_strategy": Inside(GROUP)},
            "label_selector can't be combined with a placement group",
        ),
        (
            {"label_selector": {"zone": "a"}, "scheduling_strategy": Labels({"zone": "a"})},
            "label_selector can't be combined with a node_labels strategy",
        ),
        (
            {"fallback_strategy": [{"label_selector": {}}], "scheduling_strategy": Affinity(NODE, True)},
            "fallback_strategy says which nodes may serve",
        ),
    ],
)
def test_label_selectors_that_can_not_be_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(OptionError) as caught:
        check_options(options, TASK)
    assert text in str(caught.value)


def test_a_strategy_can_be_taken_back() -> None:
    assert strategy_of({"scheduling_strategy": None}) == ""


def test_strategies_can_be_sent_and_compared() -> None:
    strategies = [Affinity(NODE, False), Labels({"zone": {"not_in": ["a"]}}), Inside(GROUP)]
    assert pickle.loads(pickle.dumps(strategies)) == strategies


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Affinity("here", True), "a node is given by its id, 16 hexadecimal digits, not 'here'"),
        (lambda: Labels({"zone": 3}), "label 'zone': values must be a string or a list of strings, not 3"),
        (lambda: Labels("zone"), "conditions on labels must be a mapping of label to value, not 'zone'"),
        (lambda: Labels({}), "NodeLabelSchedulingStrategy needs conditions: give hard={...}, soft={...}, or both"),
        (lambda: Inside(GROUP, -2), "must be -1 (any) or one of 0 to 2, the bundles of PlacementGroup(abab"),
        (lambda: Inside(GROUP, True), "must be -1 (any) or one of 0 to 2"),
        (lambda: Inside(GROUP, 3), "must be -1 (any) or one of 0 to 2"),
        (lambda: Inside(NODE), "placement_group must be a PlacementGroup or None, not 'abab"),
    ],
)
def test_what_is_malformed_is_refused_at_once(make: Any, text: str) -> None:
    with pytest.raises(OptionError) as caught:
        make()
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("strategy", "text"),
    [
        ("FASTEST", 'scheduling_strategy must be "DEFAULT", "SPREAD", a strategy of kernel.*SchedulingStrategy'),
        ({"word": 1}, "scheduling_strategy must be "),
        ({"type": "node_affinity", "node": 3}, "scheduling_strategy: a node is given by its id, 16 hexadecimal digits"),
    ],
)
def test_options_are_checked_where_they_are_given(strategy: Any, text: str) -> None:
    with pytest.raises(OptionError) as caught:
        check_options({"scheduling_strategy": strategy}, TASK)
    assert str(caught.value).startswith(text)


def test_schedulers_may_have_words_of_their_own() -> None:
    assert check_options({"scheduling_strategy": {"type": "tomorrow"}}, TASK)

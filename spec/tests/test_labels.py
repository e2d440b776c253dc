"""Labels of nodes, and the selectors of users."""

from __future__ import annotations

from typing import Any

import pytest

from kernel_spec.labels import check_labels, conditions_of_selector, labels_of_node
from kernel_spec.placement import all_hold, conditions


@pytest.mark.parametrize(
    ("text", "holding", "failing"),
    [
        ("a", ["a"], ["b", None]),
        ("!a", ["b", None], ["a"]),
        ("in(a, b)", ["a", "b"], ["c", None]),
        ("in(a,b)", ["a", "b"], ["c", None]),
        ("!in(a, b)", ["c", None], ["a", "b"]),
        ("", [""], ["a", None]),
    ],
)
def test_what_a_selector_means(text: str, holding: list[str | None], failing: list[str | None]) -> None:
    wanted = conditions(conditions_of_selector({"zone": text}))
    for value in (*holding, *failing):
        labels = {} if value is None else {"zone": value}
        assert all_hold(wanted, labels) == (value in holding)


@pytest.mark.parametrize("text", ["in()", "in(a", "in(a b)", "!", "!!a", "a b", "-a", "a" * 64, "(a)", 1, None, ["a"]])
def test_conditions_that_are_none(text: Any) -> None:
    with pytest.raises(ValueError, match="the condition on label 'zone' must be"):
        conditions_of_selector({"zone": text})


@pytest.mark.parametrize("name", ["", "-a", "a b", "a" * 64, "/a", "a/", "a..b/c", 1])
def test_names_that_are_none(name: Any) -> None:
    with pytest.raises(ValueError, match="is not a name of a label"):
        check_labels({name: "a"})


def test_every_node_has_labels_of_its_own() -> None:
    given = {"zone": "a", "kernel/node-id": "another"}
    labels = labels_of_node("abc", given, {"CPU": 1, "accelerator_type:A100": 1})
    assert labels == {"kernel/accelerator-type": "A100", "zone": "a", "kernel/node-id": "abc"}
    check_labels(labels)

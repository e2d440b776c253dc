"""Reports: keys, nested values, plain numbers; and runs, as far as loggers know them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from kernel_runs import Run
from kernel_runs.reports import (
    flatten,
    is_number,
    look_up,
    metric_in,
    metrics_of,
    own_keys,
    with_plain_numbers,
)


def test_nested_dicts_become_paths_and_are_found_by_them() -> None:
    report = {"a": {"b": 1, "c": {"d": 2}}, "e": {}, 5: 6, "a/b": 7}
    assert flatten({key: value for key, value in report.items() if key != "a/b"}) == {
        "a/b": 1, "a/c/d": 2, "e": {}, "5": 6,
    }  # fmt: skip
    assert flatten({"a": {"b": 1}}, ".") == {"a.b": 1}
    assert look_up(report, "a/b") == 7 and look_up(report, "a/c/d") == 2 and look_up(report, "a/x") is None
    assert look_up(report, "a/c") == {"d": 2} and look_up(report, "a/c/d/e") is None


def test_what_holds_one_number_becomes_that() -> None:
    class Tensor:
        shape = ()

        def item(self) -> float:
            return 0.5

    plain = with_plain_numbers(
        {"a": np.float32(0.5), "b": {"c": np.array(3)}, "d": np.arange(2), "e": Tensor(), 1: "x"}
    )
    assert plain["a"] == 0.5 and type(plain["a"]) is float and type(plain["b"]["c"]) is int and plain["e"] == 0.5
    assert list(plain["d"]) == [0, 1] and plain[1] == "x"


@pytest.mark.parametrize("value", [1, 2.5, Decimal("3"), np.float64(4), np.array(5), 1j])
def test_one_number_is_a_report_without_a_name(value: Any) -> None:
    assert is_number(value) and metrics_of(value) == {"_metric": value}


@pytest.mark.parametrize("value", ["1", [1], None, np.arange(2)])
def test_what_is_neither_a_dict_nor_a_number_is_no_report(value: Any) -> None:
    with pytest.raises(TypeError, match="a trainable returns or yields a dict of metrics, or one number, and not"):
        metrics_of(value)
    assert not is_number(value)


def test_the_key_that_results_are_compared_by() -> None:
    assert metric_in({"_metric": 1}, "episode_reward_mean") == "_metric"
    assert metric_in({"_metric": 1}, "loss") == "loss"
    assert metric_in({"_metric": 1, "episode_reward_mean": 2}, "episode_reward_mean") == "episode_reward_mean"
    assert metric_in({"loss": 1}, "episode_reward_mean") == "episode_reward_mean"


def test_what_a_run_reported_itself_is_listed() -> None:
    assert own_keys({"b": 1, "a": {"x": 2}, "pid": 3, "config": {"y": 4}}) == "a/x, b"
    assert own_keys({"pid": 3}) == "nothing of its own"
    assert own_keys({f"k{number:02}": 1 for number in range(23)}).endswith("k19 and 3 more")
    assert own_keys({f"k{number:02}": 1 for number in range(20)}).endswith("k19")


def test_a_run_is_known_by_itself() -> None:
    run = Run("train", {"x": 1}, "0001", local_dir="/results", name="train_0001", last_result={"a": {"b": 2}})
    assert run.logdir == "/results/train_0001" and str(run) == "train_0001" == repr(run)
    assert run.iteration == 0 == run.results and run.value("a/b") == 2 and run.value("c") is None and not run.has_failed
    other = Run("train", {"x": 1}, "0001", error_message="Traceback", last_result={"training_iteration": 3})
    assert other.has_failed and other.iteration == 3 and str(other) == "train_0001" and other != run
    assert {run: 1, other: 2}[run] == 1
    with pytest.raises(TypeError, match="positional"):
        Run("train", {}, "0001", "a tag")  # type: ignore[misc]

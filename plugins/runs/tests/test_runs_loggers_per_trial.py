"""Loggers that are one object a trial, and text for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kernel_runs import loggers
from kernel_runs.loggers import (
    DEFAULT_LOGGERS,
    CSVLoggerCallback,
    JsonLoggerCallback,
    Logger,
    PerTrialCallback,
    TBXLoggerCallback,
    callbacks_of,
    pretty_print,
)
from kernel_runs.run import Run


class Kept(Logger):
    made: list[Kept] = []

    def _init(self) -> None:
        self.heard: list[Any] = []
        Kept.made.append(self)

    def on_result(self, result: dict[str, Any]) -> None:
        self.heard.append(result["a"])

    def update_config(self, config: dict[str, Any]) -> None:
        self.heard.append(config)

    def flush(self) -> None:
        self.heard.append("flush")

    def close(self) -> None:
        self.heard.append("close")


def test_a_class_of_ones_own_is_made_for_each_trial(tmp_path: Path) -> None:
    Kept.made.clear()
    callback = PerTrialCallback([Kept])
    trials = [Run("f", config={"x": i}, local_dir=str(tmp_path), name=f"t{i}") for i in range(2)]
    for trial in trials:
        callback.on_trial_start(0, trials, trial)
        callback.on_trial_results(0, trials, trial, [{"a": 1}, {"a": 2}])
    trials[0].config = {"x": 7}
    callback.on_trial_start(1, trials, trials[0])
    callback.on_trial_save(1, trials, trials[0])
    callback.on_trial_complete(2, trials, trials[0])
    callback.on_trial_error(2, trials, trials[1])
    assert [logger.heard for logger in Kept.made] == [
        [{"x": 0}, 1, 2, {"x": 7}, "flush", "close"],
        [{"x": 1}, 1, 2, "close"],
    ]
    assert Kept.made[1].logdir == trials[1].logdir and Kept.made[1].trial is trials[1]


def test_a_logger_must_say_what_to_do_with_a_result(tmp_path: Path) -> None:
    class Nothing(Logger):
        pass

    with pytest.raises(NotImplementedError, match=r"Nothing must handle results: define on_result"):
        Nothing({}, str(tmp_path)).on_result({})


def test_callbacks_their_classes_and_classes_of_ones_own_may_be_given() -> None:
    kinds = [JsonLoggerCallback, CSVLoggerCallback, TBXLoggerCallback]
    assert [type(callback) for callback in callbacks_of()] == kinds

    class Quick(Kept):
        callback_type = CSVLoggerCallback

    class Other(Quick):
        pass

    own = JsonLoggerCallback()
    found = callbacks_of((*DEFAULT_LOGGERS, Kept, own, Quick, Other))
    assert [type(callback) for callback in found] == [*kinds, JsonLoggerCallback, CSVLoggerCallback, PerTrialCallback]
    assert found[3] is own and found[5]._creators == [Kept, Other]  # type: ignore[attr-defined]


def test_results_are_printed_for_people() -> None:
    result = {
        "score": 0.5, "config": {"x": 1}, "hist_stats": {}, "none": None, "hidden": 1, "a": {"b": [1, 2], "c": []},
        "list": [1, 2, 3, 4], "text": "3", "name": "f_1: x", "inf": float("inf"), "deep": [{"a": 1}, {"b": {"c": 2}}],
        "plain": "relu", "flag": True, "nan": float("nan"), "lines": "a\nb", "yes": "yes",
    }  # fmt: skip
    text = pretty_print(result, exclude={"hidden"})
    assert yaml.safe_load(text) == {
        "score": 0.5, "a": {"b": [1, 2], "c": []}, "list": [1, 2, 3, 4], "text": "3", "name": "f_1: x",
        "inf": float("inf"), "deep": [{"a": 1}, {"b": {"c": 2}}], "plain": "relu", "flag": True, "nan": None,
        "lines": "a\nb", "yes": "yes",
    }  # fmt: skip
    assert "list: [1, 2, 3, 4]\n" in text and "plain: relu\n" in text
    assert "a:\n  b:\n    - 1\n    - 2\n  c: []\n" in text


def test_every_name_is_exported() -> None:
    assert all(getattr(loggers, name) is not None for name in loggers.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = loggers.nothing

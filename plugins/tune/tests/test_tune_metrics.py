"""What may be reported: numbers of libraries, keys of any kind, and what is no number."""

from __future__ import annotations

import json
import logging
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernel import tune

pytestmark = pytest.mark.usefixtures("session", "results")


def reports(config: dict[str, Any]) -> None:
    kind = {"array": np.array, "scalar": np.float32, "number": float}[config["kind"]]
    for x in (1.0, config["x"]):
        tune.report({"m": kind(x), "inner": {"m": kind(x)}, "flag": np.bool_(True), "many": np.arange(2)})


@pytest.mark.parametrize("kind", ["array", "scalar", "number"])
@pytest.mark.parametrize("metric", ["m", "inner/m"])
@pytest.mark.parametrize("scope", ["last", "all"])
def test_what_holds_one_number_is_compared_as_that(kind: str, metric: str, scope: str) -> None:
    analysis = tune.run(
        reports, config={"kind": kind, "x": tune.grid_search([3.0, 0.5, 2.0])}, metric=metric, mode="max", verbose=0
    )
    assert analysis.get_best_config(scope=scope) == {"kind": kind, "x": 3.0}
    assert analysis.best_config == {"kind": kind, "x": 3.0}
    result = analysis.best_result
    assert type(result["m"]) is float and type(result["inner"]["m"]) is float and result["flag"] is True
    assert isinstance(result["many"], np.ndarray)


def test_a_class_keeps_the_dict_that_it_returns() -> None:
    class Keeps(tune.Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            self.metrics = {"m": np.array(1.0)}

        def step(self) -> dict[str, Any]:
            assert list(self.metrics) == ["m"] and isinstance(self.metrics["m"], np.ndarray)
            return self.metrics

    analysis = tune.run(Keeps, stop={"training_iteration": 2}, verbose=0)
    assert analysis.trials[0].last_result["m"] == 1.0


def test_keys_need_not_be_strings() -> None:
    def odd(config: dict[Any, Any]) -> None:
        tune.report({1: 2, ("a", "b"): 3, None: 4, "deep": {(5, 6): 7}, "x": config[1]})

    analysis = tune.run(odd, config={1: tune.grid_search([1, 2]), ("k",): 3}, metric="x", mode="max", verbose=0)
    assert analysis.best_config == {1: 2, ("k",): 3} and analysis.best_result[("a", "b")] == 3
    state = json.loads(Path(analysis.experiment_path, "experiment_state.json").read_text())
    assert state["trials"][1]["config"] == {"1": 2, "('k',)": 3}
    assert state["trials"][1]["last_result"]["('a', 'b')"] == 3
    line = json.loads(Path(analysis.best_logdir, "result.json").read_text())
    assert (line["1"], line["null"], line["deep"]) == (2, 4, {"(5, 6)": 7})


def test_the_state_for_people_is_json_that_every_reader_takes() -> None:
    class Stubborn:
        def __str__(self) -> str:
            raise RuntimeError("no")

    def nothing(config: dict[str, Any]) -> None:
        tune.report({"m": float("nan"), "n": float("inf")})

    analysis = tune.run(nothing, config={"kept": Stubborn()}, verbose=0)
    text = Path(analysis.experiment_path, "experiment_state.json").read_text()
    assert '"m": null' in text and '"n": 1e999' in text and "Stubborn" in text


@pytest.mark.parametrize(("value", "said"), [(None, "None"), ("high", "'high'"), ([1], r"\[1\]")])
def test_what_is_no_number_is_said_as_it_is(value: Any, said: str, caplog: pytest.LogCaptureFixture) -> None:
    def one(config: dict[str, Any]) -> None:
        tune.report({"m": value, "n": Decimal(1)})

    with caplog.at_level(logging.WARNING, "kernel.tune"):
        analysis = tune.run(one, metric="m", mode="min", verbose=0)
    assert analysis.best_trial is None
    (text,) = [record.getMessage() for record in caplog.records if "goes by it" in record.getMessage()]
    assert f"reported {said.replace(chr(92), '')}, which is not a number, as 'm' in iteration 1" in text

"""Functions that save nothing, under schedulers that need their state."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import pytest

from kernel import tune
from kernel.tune import schedulers

pytestmark = pytest.mark.usefixtures("session", "results")


def saves(config: dict[str, Any]) -> None:
    begin = tune.get_checkpoint()
    for step in range(begin.to_dict()["step"] if begin else 0, 9):
        tune.report({"score": config["x"]}, checkpoint=tune.Checkpoint.from_dict({"step": step + 1}))


def saves_nothing(config: dict[str, Any]) -> None:
    for _ in range(9):
        tune.report({"score": config["x"]})


def run(trainable: Any, scheduler: Any, **arguments: Any) -> tune.ExperimentAnalysis:
    return tune.run(
        trainable, config={"x": tune.grid_search([1, 2, 3, 4])}, scheduler=scheduler, metric="score", mode="max",
        verbose=0, seed=1, **arguments,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["PopulationBasedTraining", "HyperBandScheduler"])
@pytest.mark.parametrize("trainable", [saves, saves_nothing])
def test_who_has_saved_nothing_is_warned_of(name: str, trainable: Any, caplog: pytest.LogCaptureFixture) -> None:
    if name == "HyperBandScheduler":
        scheduler: Any = schedulers.HyperBandScheduler(max_t=9)
    else:
        scheduler = schedulers.PopulationBasedTraining(
            "training_iteration", perturbation_interval=3, hyperparam_mutations={"x": [1, 2, 3, 4]}
        )
    with caplog.at_level(logging.WARNING, "kernel.tune"):
        analysis = run(trainable, scheduler, num_samples=3)
    assert len(analysis.trials) == 12  # with fewer, all may be over before one has to wait for another
    texts = [record.getMessage() for record in caplog.records]
    if trainable is saves:
        assert not texts
    else:
        (text,) = texts
        assert f"has saved nothing, and {name} needs its state: no other trial can go on from it" in text


class Counts(tune.Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        self.count = 0

    def step(self) -> dict[str, Any]:
        self.count += 1
        return {"score": self.count * self.config["x"]}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"count": self.count}

    def load_checkpoint(self, checkpoint: Any) -> None:
        self.count = checkpoint["count"]


def test_the_budgets_of_bohb_have_a_column_from_the_first_result_on() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        analysis = run(Counts, schedulers.HyperBandForBOHB(max_t=9))
    assert {trial.last_result["hyperband_info"]["budget"] for trial in analysis.trials} <= {1, 3, 9}

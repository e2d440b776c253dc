"""The examples run, in their short forms."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from kernel_tune.examples import (
    async_hyperband_example,
    bohb_example,
    conditional_space_example,
    custom_checkpoints_example,
    custom_scheduler_example,
    custom_searcher_example,
    digits_example,
    durable_example,
    hyperband_example,
    hyperband_function_example,
    logging_example,
    multi_objective_example,
    nested_tasks_example,
    pb2_example,
    pbt_example,
    pbt_function_example,
    pbt_replay_example,
    searchers_example,
    server_example,
)

pytestmark = pytest.mark.usefixtures("session", "results")


def test_asha() -> None:
    analysis = async_hyperband_example.main(smoke_test=True)
    assert len(analysis.trials) == 8 and len({trial.results for trial in analysis.trials}) > 1
    assert set(analysis.best_config) == {"width", "height"}


def test_hyperband() -> None:
    trials = hyperband_example.main(smoke_test=True)
    assert len(trials) == 9 and max(trial.results for trial in trials) == 9


def test_hyperband_with_a_function_that_goes_on_where_it_was() -> None:
    trials = hyperband_function_example.main(smoke_test=True).trials
    assert len({trial.results for trial in trials}) > 1 and max(trial.results for trial in trials) == 9
    assert all(trial.last_result["step"] == trial.results for trial in trials)


def test_bohb() -> None:
    analysis = bohb_example.main(smoke_test=True)
    assert len(analysis.trials) == 6 and max(trial.results for trial in analysis.trials) == 4
    assert min(trial.results for trial in analysis.trials) < 4


def test_pbt() -> None:
    analysis = pbt_example.main(smoke_test=True)
    assert [trial.last_result["training_iteration"] for trial in analysis.trials] == [15] * 4
    assert Path(analysis.experiment_path, "pbt_global.txt").exists()


def test_pbt_with_a_function_and_its_replay() -> None:
    """The replay searches first, by the other example."""
    replayed = pbt_replay_example.main(smoke_test=True)
    (trial,) = replayed.trials
    assert trial.last_result["training_iteration"] == 12 and "@replay[" in trial.experiment_tag
    folder = Path(replayed.experiment_path).parent / "pbt_function"
    assert folder.joinpath("pbt_global.txt").exists()
    assert pbt_function_example.best_rate(50) == pytest.approx(0.011)


def test_pb2() -> None:
    analysis = pb2_example.main(smoke_test=True)
    assert all(0.0001 <= trial.config["lr"] <= 0.02 for trial in analysis.trials)
    assert any("@" in trial.experiment_tag for trial in analysis.trials)


@pytest.mark.parametrize("searcher", ["random", "tpe", "gp", "cmaes"])
def test_searchers(searcher: str) -> None:
    results = searchers_example.main(smoke_test=True, searcher=searcher)
    assert len(results) == 8 and results[0].config == {"x": 0.0, "y": 0.0}
    assert results.get_best_result().metrics["height"] <= results[0].metrics["height"] == 1.0


def test_a_searcher_of_ones_own() -> None:
    analysis = custom_searcher_example.main(smoke_test=True)
    assert len(analysis.trials) == 10 and analysis.best_result["height"] < analysis.trials[0].last_result["height"]


def test_a_scheduler_of_ones_own() -> None:
    assert [trial.results for trial in custom_scheduler_example.main(smoke_test=True).trials] == [5, 5, 1, 1]


def test_a_durable_trainable_goes_on_from_what_is_elsewhere() -> None:
    analysis = durable_example.main(smoke_test=True)
    assert analysis.best_result["count"] == 6 and analysis.trials[0].failures == 1
    assert analysis.best_result["iterations_since_restore"] == 2


def test_the_server_and_its_client() -> None:
    seen, trials = server_example.main(smoke_test=True)
    assert seen == ["RUNNING", "2 was added"] and [trial.config["number"] for trial in trials] == [1, 2]


def test_checkpoints_of_ones_own() -> None:
    weights, results = custom_checkpoints_example.main(smoke_test=True)
    assert np.allclose(weights, [2, -1], atol=1)
    for result in results:
        assert len(list(Path(result.path).glob("checkpoint_*"))) in (2, 3)  # the newest is always kept


def test_a_space_with_conditions() -> None:
    for result in (results := conditional_space_example.main(smoke_test=True)):
        kind = result.config["model"]["kind"]
        assert ("depth" in result.config["model"]) == (kind == "tree")
        assert result.config["patience"] == 2 * result.config["folds"]
    assert {result.config["model"]["kind"] for result in results} == {"tree", "kernel"}


def test_two_metrics() -> None:
    front, results = multi_objective_example.main(smoke_test=True)
    errors = [result.metrics["error"] for result in front]
    assert 0 < len(front) <= len(results) == 12 and errors == sorted(errors, reverse=True)


def test_tasks_in_a_trial() -> None:
    results = nested_tasks_example.main(smoke_test=True)
    assert results.num_errors == 0 and all(result.metrics["error"] > 0 for result in results)


def test_logging() -> None:
    logdir = logging_example.main(smoke_test=True).best_logdir
    assert "width10" in os.path.basename(logdir)
    assert Path(logdir, "lines.txt").read_text().splitlines()[0] == "after 1: 10.000"
    assert {"result.json", "progress.csv"} <= set(os.listdir(logdir))


def test_digits() -> None:
    results = digits_example.main(smoke_test=True)
    assert results.num_errors == 0 and results.get_best_result().metrics["mean_accuracy"] > 0.5

"""The examples run, in their short forms."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kernel_tune.examples import (
    async_hyperband_example,
    digits_example,
    hyperband_example,
    logging_example,
    pbt_example,
)

pytestmark = pytest.mark.usefixtures("session", "results")


def test_asha() -> None:
    analysis = async_hyperband_example.main(smoke_test=True)
    assert len(analysis.trials) == 8 and len({trial.results for trial in analysis.trials}) > 1
    assert set(analysis.best_config) == {"width", "height"}


def test_hyperband() -> None:
    trials = hyperband_example.main(smoke_test=True)
    assert len(trials) == 9 and max(trial.results for trial in trials) == 9


def test_pbt() -> None:
    analysis = pbt_example.main(smoke_test=True)
    assert [trial.last_result["training_iteration"] for trial in analysis.trials] == [15] * 4
    assert Path(analysis.experiment_path, "pbt_global.txt").exists()


def test_logging() -> None:
    logdir = logging_example.main(smoke_test=True).best_logdir
    assert "width10" in os.path.basename(logdir)
    assert Path(logdir, "lines.txt").read_text().splitlines()[0] == "after 1: 10.000"
    assert {"result.json", "progress.csv"} <= set(os.listdir(logdir))


def test_digits() -> None:
    results = digits_example.main(smoke_test=True)
    assert results.num_errors == 0 and results.get_best_result().metrics["mean_accuracy"] > 0.5

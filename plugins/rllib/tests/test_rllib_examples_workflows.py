"""The example programs of workflows: files, imitation, losses and metrics of one's own, a training of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.examples import (
    custom_loss,
    custom_metrics_and_callbacks,
    custom_train_fn,
    imitating,
    saving_experiences,
)
from kernel_rllib.offline.json_reader import JsonReader

FEW = ["--seed", "1", "--as-test"]


@pytest.mark.parametrize(("program", "reward", "iterations"), [
    (custom_loss, 27, 6), (custom_metrics_and_callbacks, 25, 3), (custom_train_fn, 25, 3), (imitating, 100, 3),
])  # fmt: skip
def test_it_begins_to_learn(program: Any, reward: float, iterations: int, capsys: Any) -> None:
    assert program.main([*FEW, "--stop-iters", str(iterations), "--stop-reward", str(reward)]) >= reward
    assert capsys.readouterr().out
    if program is not custom_metrics_and_callbacks:
        with pytest.raises(RuntimeError, match="and should have become 1000"):
            program.main([*FEW, "--stop-iters", "1", "--stop-reward", "1000"])


def test_files_say_how_likely_actions_were(tmp_path: Path, capsys: Any) -> None:
    steps = saving_experiences.main([str(tmp_path), "--episodes", "3"])
    assert f"{steps} steps of 3 episodes are in {tmp_path}" in capsys.readouterr().out
    reader = JsonReader(str(tmp_path))
    batches: list[Any] = [reader.next() for _ in range(3)]
    assert sum(batch.count for batch in batches) == steps
    for batch in batches:
        expected = [saving_experiences.chances(row["obs"])[row["actions"]] for row in batch.rows()]
        np.testing.assert_allclose(batch["action_prob"], expected, rtol=1e-6)
        ends = batch["terminateds"] | batch["truncateds"]
        assert ends.nonzero()[0].tolist() == [batch.count - 1]
        np.testing.assert_array_equal(batch["prev_actions"][1:], batch["actions"][:-1])


def test_the_loss_of_imitation_is_reported_and_becomes_less(tmp_path: Path) -> None:
    saving_experiences.write(str(tmp_path), 20)
    algorithm = custom_loss.make_config(str(tmp_path), 1).build()
    losses = [algorithm.train()["learners"]["default_policy"]["imitation_loss"] for _ in range(4)]
    assert losses[-1] < losses[0]
    algorithm.stop()


def test_results_have_the_metrics_of_callbacks() -> None:
    algorithm = custom_metrics_and_callbacks.make_config(1).build()
    result = algorithm.train()
    told = result["custom_metrics"]
    assert 0 < told["pole_angle_min"] <= told["pole_angle_mean"] <= told["pole_angle_max"] < 0.25
    assert result["callback_ok"] and len(result["hist_stats"]["pole_angles"]) > 100
    algorithm.stop()


@pytest.mark.usefixtures("session")
def test_tune_runs_the_same_training() -> None:
    assert custom_train_fn.main([*FEW, "--tune", "--stop-iters", "1", "--stop-reward", "5"]) >= 5

"""Algorithms under Tune: by name and by class, with settings of either generation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import kernel_tune as tune
import pytest
from kernel_rllib.algorithms.ppo import PPO, PPOConfig

import kernel

pytestmark = pytest.mark.usefixtures("session")


def settings(**more: Any) -> dict[str, Any]:
    """Return small settings as a dict of 0.8.5."""
    small = {"train_batch_size": 64, "sgd_minibatch_size": 32, "num_sgd_iter": 1, "model": {"fcnet_hiddens": [8]}}
    return {"env": "CartPole-v1", "num_workers": 0, "rollout_fragment_length": 64, "seed": 1, **small, **more}


@pytest.mark.parametrize("named", ["PPO", PPO])
def test_an_algorithm_is_run_by_its_name_and_by_its_class(named: Any, tmp_path: Path) -> None:
    config = settings(lr=tune.grid_search([1e-3, 1e-4]))
    analysis = tune.run(named, config=config, stop={"training_iteration": 2}, local_dir=str(tmp_path), verbose=0)
    assert [trial.last_result["timesteps_total"] for trial in analysis.trials] == [128, 128]
    rates = [
        trial.last_result["info"]["learner"]["default_policy"]["learner_stats"]["ppo_learning_rate"]
        for trial in analysis.trials
    ]
    assert rates == [1e-3, 1e-4]


@pytest.mark.parametrize("pipelined", [False, True])
def test_the_same_seed_gives_the_same_bits_inside_of_tune_and_outside(tmp_path: Path, pipelined: bool) -> None:
    config = settings(pipelined_sampling=pipelined)
    alone = PPO(config)
    for _ in range(2):
        alone.train()
    analysis = tune.run(
        "PPO",
        config=config,
        stop={"training_iteration": 2},
        checkpoint_at_end=True,
        local_dir=str(tmp_path),
        verbose=0,
    )
    resumed = PPO(config)
    resumed.restore(analysis.trials[0].checkpoint.path)
    assert resumed.learner.weights.tobytes() == alone.learner.weights.tobytes()
    assert resumed.train()["training_iteration"] == 3
    alone.train()
    assert resumed.learner.weights.tobytes() == alone.learner.weights.tobytes()


@pytest.mark.parametrize("as_given", [lambda config: config, lambda config: config.to_dict()])
def test_a_config_is_a_space_to_search(tmp_path: Path, as_given: Callable[[PPOConfig], Any]) -> None:
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0, num_envs=2)
    config.training(train_batch_size=64, minibatch_size=32, num_epochs=1, lr=tune.grid_search([1e-3, 1e-4]))
    tuner = tune.Tuner(
        "PPO",
        param_space=as_given(config),
        run_config=tune.RunConfig(stop={"training_iteration": 1}, storage_path=str(tmp_path), verbose=0),
    )
    assert sorted(result.metrics["timesteps_total"] for result in tuner.fit()) == [64, 64]


def test_a_trial_of_more_processes_than_cpus_is_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    there = int(kernel.cluster_resources()["CPU"])
    analysis = tune.run(
        "PPO", config=settings(num_workers=there), stop={"training_iteration": 1}, local_dir=str(tmp_path), verbose=0
    )
    assert analysis.trials[0].last_result["num_healthy_workers"] == there
    warned = [record.getMessage() for record in caplog.records if record.name == "kernel.rllib"]
    assert len(warned) == 1 and f"the {there + 1} processes of a trial of PPO, {there} of them runners" in warned[0]

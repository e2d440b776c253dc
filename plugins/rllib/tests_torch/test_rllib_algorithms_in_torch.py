"""Algorithms with learners in torch: they train, and come to what learners in numpy come to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from kernel_rllib.algorithms.ppo import PPO, PPOConfig


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_ppo_learns_the_same_in_both(env: str) -> None:
    def trained(framework: Any) -> PPO:
        config = PPOConfig().environment(env).env_runners(num_env_runners=0, num_envs=2).framework(framework)
        config.training(train_batch_size=64, minibatch_size=32, num_epochs=2, model={"fcnet_hiddens": [8]})
        algorithm: PPO = config.debugging(seed=1).build()
        algorithm.train()
        return algorithm

    ours, theirs = trained("numpy"), trained("torch")
    np.testing.assert_allclose(np.asarray(theirs.learner.weights), ours.learner.weights, atol=1e-4)
    assert np.abs(np.asarray(theirs.learner.weights)).max() > 0.1

"""Rewards for what is new, and choices one after another, with learners in torch: they come to what numpy's do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.distributions.autoregressive import AutoregressiveCategorical
from kernel_rllib.envs.games.correlated_actions import CorrelatedActionsEnv
from kernel_rllib.examples.autoregressive_action_model import AutoregressiveActionModel


def trained(framework: Any, env: Any, **settings: Any) -> Any:
    """Return a small PPO that has learned once."""
    config = PPOConfig().environment(env).env_runners(num_env_runners=0, num_envs=2).framework(framework)
    config.training(train_batch_size=64, minibatch_size=32, num_epochs=2, model={"fcnet_hiddens": [8]})
    algorithm = config.update_from_dict(settings).debugging(seed=1).build()
    algorithm.train()
    return algorithm


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("exploration", [
    {"type": "Curiosity", "feature_dim": 4, "inverse_net_hiddens": [4], "forward_net_hiddens": [4]},
    {"type": "RND", "embed_dim": 4},
    {"type": "RND", "embed_dim": 4, "nonepisodic_returns": True},
], ids=["curiosity", "rnd", "rnd past ends"])  # fmt: skip
def test_networks_of_intrinsic_rewards_learn_the_same_in_both(env: str, exploration: Any) -> None:
    ours, theirs = (trained(framework, env, exploration_config=exploration) for framework in ("numpy", "torch"))
    for one, other in ((ours, theirs), (ours.intrinsic_reward, theirs.intrinsic_reward)):
        np.testing.assert_allclose(np.asarray(other.learner.weights), one.learner.weights, atol=1e-4)
    assert theirs.intrinsic_reward.learner.backend.name == "torch"


def test_choices_one_after_another_learn_the_same_in_both() -> None:
    model = {"custom_model": AutoregressiveActionModel, "custom_action_dist": AutoregressiveCategorical}
    ours, theirs = (trained(framework, CorrelatedActionsEnv, model=model) for framework in ("numpy", "torch"))
    np.testing.assert_allclose(np.asarray(theirs.learner.weights), ours.learner.weights, atol=1e-4)

"""Policies in files of torch, and explorations of the user's own that compute in torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.envs.games.catch import Catch
from kernel_rllib.export.player import Policy as Played
from kernel_rllib.first_generation.exploration import Exploration
from kernel_rllib.first_generation.policy import Policy
from torch import nn


class Plain(nn.Module):
    """A network of outputs and values that numpy alone can't play."""

    def __init__(self, num_outputs: int) -> None:
        super().__init__()
        self.layer = nn.Linear(4, num_outputs + 1)

    def forward(self, obs: Any) -> Any:
        """Return outputs and values."""
        found = self.layer(obs)
        return found[:, :-1], found[:, -1]


class Halved(Exploration):
    """Draws from what torch makes of the inputs."""

    def get_exploration_action(self, distribution_inputs: Any, action_dist_class: Any, explore: bool, **_: Any) -> Any:  # type: ignore[override]
        """Return a draw at twice the temperature."""
        assert isinstance(distribution_inputs, torch.Tensor) and self.framework == "torch"
        distribution = action_dist_class(torch.div(distribution_inputs, 2))
        actions = distribution.sample() if explore else distribution.deterministic_sample()
        return actions, distribution.logp(actions)


OBS = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)


def trained(config: Any = PPOConfig, **model: Any) -> Any:
    """Return an algorithm that learned in torch."""
    made = config().environment("CartPole-v1").framework("torch").debugging(seed=1).env_runners(num_env_runners=0)
    if config is PPOConfig:
        made.training(train_batch_size=16, minibatch_size=16, num_epochs=1)
    else:
        made.training(train_batch_size=8, num_steps_sampled_before_learning_starts=8, hiddens=[4])
        made.reporting(min_sample_timesteps_per_iteration=16, min_time_s_per_iteration=0)
    algorithm = made.training(model=model or {"fcnet_hiddens": [4]}).build()
    algorithm.train()
    return algorithm


@pytest.mark.parametrize("config", [PPOConfig, DQNConfig])
def test_a_model_of_torch_computes_what_the_policy_does(config: Any, tmp_path: Path) -> None:
    algorithm = trained(config)
    policy = algorithm.get_policy()
    policy.export_model(str(tmp_path))
    model = torch.load(tmp_path / "model.pt", weights_only=False)
    outputs = model(torch.from_numpy(OBS))
    found = outputs.get("action_dist_inputs", outputs.get("q_values"))
    assert found.requires_grad
    expected = policy.compute_actions(OBS, explore=False)[0]
    assert found.argmax(1).tolist() == expected.tolist() == Played(tmp_path).actions(OBS).tolist()


def test_what_numpy_can_not_play_is_a_model_of_torch(tmp_path: Path) -> None:
    algorithm = trained(custom_model=Plain)
    algorithm.export_policy_model(str(tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == ["model.pt"]
    found = torch.load(tmp_path / "model.pt", weights_only=False)(torch.from_numpy(OBS))["action_dist_inputs"]
    assert found.argmax(1).tolist() == algorithm.get_policy().compute_actions(OBS, explore=False)[0].tolist()


def test_a_network_that_remembers_is_one_too(tmp_path: Path) -> None:
    algorithm = trained(use_lstm=True, lstm_cell_size=4, max_seq_len=4)
    policy = algorithm.get_policy()
    policy.export_model(str(tmp_path))
    model = torch.load(tmp_path / "model.pt", weights_only=False)
    state = [np.repeat(first[None], len(OBS), axis=0) for first in policy.get_initial_state()]
    memory = None
    for _ in range(2):
        expected, state, _ = policy.compute_actions(OBS, state, explore=False)
        outputs = model(torch.from_numpy(OBS), memory)
        memory = outputs["state_out"]
        assert outputs["action_dist_inputs"].argmax(1).tolist() == expected.tolist()
        for found, was in zip(memory.values(), state, strict=True):
            np.testing.assert_allclose(found.detach().numpy(), was, rtol=1e-4, atol=1e-6)


def test_a_policy_of_torch_is_read_without_an_algorithm(tmp_path: Path) -> None:
    algorithm = trained(custom_model=Plain)
    algorithm.export_policy_checkpoint(str(tmp_path))
    read = Policy.from_checkpoint(str(tmp_path))
    expected = algorithm.get_policy().compute_actions(OBS, explore=False)[0]
    assert read.compute_actions(OBS, explore=False)[0].tolist() == expected.tolist()


def test_an_exploration_of_torch_is_given_tensors() -> None:
    made = PPOConfig().environment("CartPole-v1").framework("torch").env_runners(num_env_runners=0)
    made.training(train_batch_size=16, minibatch_size=16, num_epochs=1).exploration(exploration_config={"type": Halved})
    algorithm = made.build()
    fragment = algorithm.sample()
    inputs, actions = fragment.columns["action_dist_inputs"][:, 0], fragment.columns["actions"][:, 0]
    shares = torch.log_softmax(torch.from_numpy(inputs) / 2, 1).numpy()
    np.testing.assert_allclose(fragment.columns["action_logp"][:, 0], shares[np.arange(16), actions], rtol=1e-4)
    assert algorithm.compute_single_action(OBS[0], explore=False) in (0, 1)


def test_a_policy_that_sees_images_is_a_model_of_torch(tmp_path: Path) -> None:
    settings = PPOConfig().environment(Catch, env_config={"channels": True}).env_runners(num_env_runners=0)
    algorithm = settings.training(train_batch_size=16, minibatch_size=16, num_epochs=1).build()
    policy = algorithm.get_policy()
    policy.export_model(str(tmp_path))
    rows = policy.preprocess([algorithm.spaces.observation.sample() for _ in range(4)])
    found = torch.load(tmp_path / "model.pt", weights_only=False)(torch.from_numpy(rows))["action_dist_inputs"]
    assert found.argmax(1).tolist() == policy.compute_actions(rows, explore=False)[0].tolist()

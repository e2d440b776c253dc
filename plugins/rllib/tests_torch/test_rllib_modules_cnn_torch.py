"""Convolutions on torch: the numbers of numpy, and algorithms that learn from pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.data import columns
from kernel_rllib.envs.games.catch import Catch
from kernel_rllib.modules.actor_critic import ActorCritic, ActorCriticOptions
from kernel_rllib.modules.cnn import ConvolutionOptions
from kernel_rllib.modules.q_network import QNetwork, QNetworkOptions
from kernel_rllib.nn.backends import backend

IMAGES = [(20, 24, 3), (10, 5, 1)]


@pytest.mark.parametrize("shape", IMAGES)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_torch_and_numpy_agree(shape: tuple[int, int, int], dtype: Any) -> None:
    generator = np.random.default_rng(0)
    drawn = generator.integers(0, 256, (3, *shape), np.uint8)
    images = drawn if dtype == np.uint8 else drawn.astype(np.float32) / 255
    options = ActorCriticOptions(convolutions=ConvolutionOptions(activation="tanh"), more=(32,))
    for module in (ActorCritic(shape, 4, options=options), QNetwork(shape, 4, QNetworkOptions(heads=(16,)))):
        vector = module.initial(generator)
        found = [
            backend(name).evaluate(
                lambda nn, p, module=module: module.train(nn, p, {columns.OBS: images}), vector, module.table
            )
            for name in ("numpy", "torch")
        ]
        for name, value in found[0].items():
            np.testing.assert_allclose(found[1][name], value, rtol=1e-5, atol=1e-5)


def pixels(config: Any, **env_runners: Any) -> Any:
    runners = {"num_env_runners": 0, "num_envs": 8, "num_cpus_per_env_runner": 0, **env_runners}
    made = config.environment(Catch, env_config={"channels": True}).env_runners(**runners).debugging(seed=1)
    return made


def ppo(**env_runners: Any) -> PPOConfig:
    made: PPOConfig = pixels(PPOConfig(), **env_runners).training(
        train_batch_size=512, minibatch_size=128, num_epochs=4, lr=2e-3, lambda_=0.9, gamma=0.95,
        model={"head_fcnet_hiddens": [64], "vf_share_layers": True},
    )  # fmt: skip
    return made


def test_ppo_learns_to_catch_from_pixels() -> None:
    algorithm = ppo().build()
    assert algorithm.learner.backend.name == "torch"
    best = -1.0
    for _ in range(25):
        best = max(best, algorithm.train()["episode_reward_mean"])
        if best > 0.3:
            break
    assert best > 0.3  # chance is about -0.6


@pytest.mark.usefixtures("session")
def test_two_runners_give_the_bits_of_none_and_of_a_checkpoint(tmp_path: Any) -> None:
    alone, two = ppo().build(), ppo(num_env_runners=2).build()
    for algorithm in (alone, two):
        algorithm.train()
    path = alone.save(str(tmp_path))
    for algorithm in (alone, two):
        algorithm.train()
    assert two.learner.weights.tobytes() == alone.learner.weights.tobytes()
    two.stop()
    resumed = ppo().build()
    resumed.restore(path)
    resumed.train()
    assert resumed.learner.weights.tobytes() == alone.learner.weights.tobytes()


class Colours:
    """An environment of bytes: the action to take is the channel that shines."""

    observation_space = Box(0, 255, (9, 9, 2), np.uint8)
    action_space = Discrete(2)

    def __init__(self, env_config: Any) -> None:
        self._generator = np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self._generator = np.random.default_rng(seed)
        return self._next(), {}

    def _next(self) -> Any:
        self._shines, self._steps = int(self._generator.integers(2)), 0
        image = np.zeros((9, 9, 2), np.uint8)
        image[..., self._shines] = 255
        return image

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(action == self._shines)
        return self._next(), reward, True, False, {}


def test_dqn_keeps_bytes_in_replay_and_learns_from_them() -> None:
    config = (
        DQNConfig().environment(Colours).env_runners(num_env_runners=0, num_envs=4).debugging(seed=0)
        .training(train_batch_size=32, lr=1e-3, num_steps_sampled_before_learning_starts=64, hiddens=[16],
                  model={"conv_filters": [[4, 3, 3]]}, replay_buffer_config={"capacity": 500})
        .exploration(exploration_config={"type": "EpsilonGreedy", "epsilon": 0.1})
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=100)
    )  # fmt: skip
    algorithm = config.build()
    result: dict[str, Any] = {}
    for _ in range(8):
        result = algorithm.train()
    batch = algorithm.draw()
    assert batch[columns.OBS].dtype == batch[columns.NEXT_OBS].dtype == np.uint8
    assert result["episode_reward_mean"] > 0.8

"""SAC, DDPG and TD3: what single actions are."""

from __future__ import annotations

from typing import Any

import pytest
from kernel_rllib.training.algorithm import Algorithm
from kernel_rllib.training.registry import algorithm_class

NETWORK = {"fcnet_hiddens": [16, 16]}
KINDS = {
    "SAC": {"policy_model_config": NETWORK, "q_model_config": NETWORK},
    "DDPG": {"actor_hiddens": [16, 16], "critic_hiddens": [16, 16]},
    "TD3": {"actor_hiddens": [16, 16], "critic_hiddens": [16, 16]},
}


def made(name: str, env: str = "Pendulum-v1", runners: int = 0, **settings: Any) -> Algorithm:
    """Return a small algorithm that learns from its first steps on."""
    small = {
        "env": env,
        "seed": 3,
        "num_env_runners": runners,
        "num_envs": 2,
        "num_cpus_per_env_runner": 0,
        "rollout_fragment_length": 4,
        "train_batch_size": 16,
        "num_steps_sampled_before_learning_starts": 16,
        "min_sample_timesteps_per_iteration": 40,
        "min_time_s_per_iteration": 0,
        "replay_buffer_config": {"capacity": 1000},
        **KINDS[name],
    }
    algorithm: Algorithm = algorithm_class(name)({**small, **settings})
    return algorithm


CASES = [("SAC", "Pendulum-v1"), ("SAC", "CartPole-v1"), ("DDPG", "Pendulum-v1"), ("TD3", "Pendulum-v1")]


@pytest.mark.parametrize(("name", "env"), CASES)
def test_actions_keep_to_the_bounds_of_the_space(name: str, env: str) -> None:
    algorithm = made(name, env)
    algorithm.train()
    space = algorithm.spaces.action
    observation = algorithm.spaces.observation.sample()
    for explore in (True, False):
        assert all(space.contains(algorithm.compute_single_action(observation, explore=explore)) for _ in range(20))

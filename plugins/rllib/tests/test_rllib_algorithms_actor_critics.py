"""SAC, DDPG and TD3: the same bits for any number of runners and after a checkpoint; SAC learns to swing up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.algorithm import Algorithm
from kernel_rllib.algorithms.registry import algorithm_class

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


def weights_after(iterations: int, algorithm: Algorithm) -> bytes:
    """Return all parameters after some iterations."""
    for _ in range(iterations):
        algorithm.train()
    return algorithm.learner.weights.tobytes()


CASES = [("SAC", "Pendulum-v1"), ("SAC", "CartPole-v1"), ("DDPG", "Pendulum-v1"), ("TD3", "Pendulum-v1")]


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(("name", "env"), CASES)
def test_any_number_of_runners_ends_with_the_same_bits(name: str, env: str) -> None:
    alone, several = made(name, env), made(name, env, runners=2)
    begin = alone.learner.weights.tobytes()
    ended = weights_after(2, alone)
    assert ended != begin
    assert weights_after(2, several) == ended
    several.stop()


@pytest.mark.parametrize(("name", "env"), CASES)
def test_training_goes_on_after_a_checkpoint_with_the_same_bits(name: str, env: str, tmp_path: Path) -> None:
    straight = made(name, env, store_buffer_in_checkpoints=True)
    straight.train()
    path = straight.save(str(tmp_path / "checkpoint"))
    expected = weights_after(2, straight)
    resumed = made(name, env, store_buffer_in_checkpoints=True)
    resumed.restore(path)
    assert weights_after(2, resumed) == expected


@pytest.mark.parametrize(("name", "env"), CASES)
def test_actions_keep_to_the_bounds_of_the_space(name: str, env: str) -> None:
    algorithm = made(name, env)
    algorithm.train()
    space = algorithm.spaces.action
    observation = algorithm.spaces.observation.sample()
    for explore in (True, False):
        assert all(space.contains(algorithm.compute_single_action(observation, explore=explore)) for _ in range(20))


def test_soft_actor_critic_learns_to_swing_up() -> None:
    network = {"fcnet_hiddens": [64, 64]}
    algorithm = made(
        "SAC",
        num_envs=1,
        rollout_fragment_length=1,
        train_batch_size=64,
        num_steps_sampled_before_learning_starts=500,
        min_sample_timesteps_per_iteration=1000,
        gamma=0.98,
        replay_buffer_config={"capacity": 20_000},
        actor_lr=1e-3,
        critic_lr=1e-3,
        policy_model_config=network,
        q_model_config=network,
    )
    best = -np.inf
    for _ in range(9):
        result = algorithm.train()
        best = max(best, float(np.mean(result["hist_stats"]["episode_reward"][-5:])))
        if best > -400:
            break
    assert best > -400, "random play has -1,200"

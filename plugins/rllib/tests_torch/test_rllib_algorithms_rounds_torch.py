"""Rounds of algorithms whose losses have tests in numpy: in torch they end with the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.alpha_star import AlphaStar
from kernel_rllib.algorithms.alpha_zero import AlphaZero
from kernel_rllib.algorithms.apex_qmix import ApexQMIX
from kernel_rllib.algorithms.ddpg import DDPG
from kernel_rllib.algorithms.dqn import DQN
from kernel_rllib.algorithms.dreamer import Dreamer
from kernel_rllib.algorithms.dreamerv3 import DreamerV3
from kernel_rllib.algorithms.dt import DT
from kernel_rllib.algorithms.maml import MAML
from kernel_rllib.algorithms.mbmpo import MBMPO
from kernel_rllib.data.batch import Batch
from kernel_rllib.envs.games.known_rewards import CartPoleWithReward
from kernel_rllib.envs.games.point_goal import PointGoal
from kernel_rllib.envs.games.rock_paper_scissors import RockPaperScissors
from kernel_rllib.envs.games.tic_tac_toe import TicTacToe
from kernel_rllib.envs.games.two_step_game import grouped_two_step_game
from kernel_rllib.offline.json_writer import JsonWriter

pytest.importorskip("torch")

NOISY = {
    "rollout_fragment_length": 8, "train_batch_size": 8, "num_steps_sampled_before_learning_starts": 32,
    "min_sample_timesteps_per_iteration": 64, "batch_mode": "complete_episodes", "num_envs": 2,
    "exploration_config": {"type": "ParameterNoise", "initial_stddev": 0.1, "random_timesteps": 16},
}  # fmt: skip
ROUNDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "AlphaStar": (
        AlphaStar,
        {
            "env": RockPaperScissors, "env_config": {"num_rounds": 4}, "num_envs": 4, "rollout_fragment_length": 8,
            "train_batch_size": 64, "model": {"fcnet_hiddens": [4]},
        },
    ),
    "AlphaZero": (
        AlphaZero,
        {
            "env": TicTacToe, "num_envs": 4, "rollout_fragment_length": 4, "train_batch_size": 32, "minibatch_size": 16,
            "num_epochs": 1, "mcts_config": {"num_simulations": 5}, "num_steps_sampled_before_learning_starts": 16,
            "model": {"fcnet_hiddens": [8]},
        },
    ),
    "ApexQMIX": (
        ApexQMIX,
        {
            "env": grouped_two_step_game, "num_envs": 4, "rollout_fragment_length": 4, "train_batch_size": 16,
            "num_steps_sampled_before_learning_starts": 16, "model": {"lstm_cell_size": 6},
            "min_sample_timesteps_per_iteration": 32, "optimizer": {"num_replay_buffer_shards": 0},
        },
    ),
    "Dreamer": (
        Dreamer,
        {
            "env": "Pendulum-v1", "horizon": 20, "num_envs": 2, "batch_size": 2, "batch_length": 6,
            "dreamer_model": {"deter_size": 6, "stoch_size": 3, "hidden_size": 5}, "dreamer_train_iters": 2,
            "imagine_horizon": 4, "prefill_timesteps": 40, "buffer_size": 400,
        },
    ),
    "DreamerV3": (
        DreamerV3,
        {
            "env": "CartPole-v1", "num_envs": 2, "model_size": "nano", "batch_size_B": 2, "batch_length_T": 6,
            "horizon_H": 4, "training_ratio": 2, "replay_buffer_config": {"capacity": 200},
            "min_sample_timesteps_per_iteration": 40,
        },
    ),
    "DT": (
        DT,
        {
            "env": "CartPole-v1", "train_batch_size": 32, "rollout_fragment_length": 12, "target_return": 20,
            "horizon": 20, "embed_dim": 8, "num_layers": 1, "model": {"max_seq_len": 4},
            "min_train_timesteps_per_iteration": 64, "input": "recorded",
        },
    ),
    "MAML": (
        MAML,
        {
            "env": PointGoal, "env_config": {"horizon": 5}, "num_envs": 6, "meta_batch_size": 3,
            "rollout_fragment_length": 5, "maml_optimizer_steps": 2, "model": {"fcnet_hiddens": [4]},
        },
    ),
    "MBMPO": (
        MBMPO,
        {
            "env": CartPoleWithReward, "num_envs": 2, "rollout_fragment_length": 10, "horizon": 12,
            "imagined_episodes": 3, "maml_optimizer_steps": 1, "num_maml_steps": 2, "model": {"fcnet_hiddens": [4]},
            "dynamics_model": {"ensemble_size": 3, "fcnet_hiddens": [8], "train_epochs": 3, "batch_size": 8},
        },
    ),
    "ParameterNoise in DQN": (DQN, {"env": "CartPole-v1", "model": {"fcnet_hiddens": [8]}, **NOISY}),
    "ParameterNoise in DDPG": (
        DDPG,
        {"env": "Pendulum-v1", "horizon": 20, "actor_hiddens": [8], "critic_hiddens": [8], **NOISY},
    ),
}  # fmt: skip


def recorded(path: Path) -> str:
    """Write episodes of made-up numbers, in the spaces of CartPole."""
    draw, writer = np.random.default_rng(1), JsonWriter(str(path))
    for number in range(10):
        obs, ends = draw.normal(size=(13, 4)).astype(np.float32), np.arange(12) == 11
        writer.write(
            Batch(
                obs=obs[:-1], new_obs=obs[1:], actions=draw.integers(0, 2, 12), rewards=np.ones(12, np.float32),
                terminateds=ends, truncateds=ends & False, eps_id=np.full(12, number),
            )
        )  # fmt: skip
    writer.close()
    return str(path)


@pytest.mark.parametrize("name", ROUNDS)
def test_rounds_in_torch_end_with_the_weights_of_those_in_numpy(name: str, tmp_path: Path) -> None:
    kind, settings = ROUNDS[name]
    given = {**settings, "seed": 3, "num_env_runners": 0, "min_time_s_per_iteration": 0}
    if settings.get("input"):
        given["input"] = recorded(tmp_path / "recorded")
    ended = []
    for framework in ("numpy", "torch"):
        algorithm = kind({**given, "framework": framework})
        began = algorithm.get_weights()
        algorithm.train()
        ended.append((began, algorithm.get_weights()))
        algorithm.stop()
    (began, expected), (_, found) = ended
    pairs = [(began[name][key], expected[name][key], found[name][key]) for name in expected for key in expected[name]]
    moved = max(float(np.abs(after - before).max()) for before, after, _ in pairs)
    assert moved > 0
    for _, in_numpy, in_torch in pairs:
        np.testing.assert_allclose(in_torch, in_numpy, rtol=1e-5, atol=0.02 * moved)

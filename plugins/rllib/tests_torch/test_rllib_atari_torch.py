"""Learning from games of Atari: transitions end with a life, results tell of whole games."""

from __future__ import annotations

import numpy as np
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.data import columns
from kernel_rllib.testing.console import Console


def test_a_life_ends_transitions_and_a_game_ends_episodes() -> None:
    config = (
        DQNConfig()
        .environment(Console, env_config={"life": 50}, is_atari=True)
        .env_runners(num_env_runners=0, num_envs=2, preprocessor_pref="deepmind", rollout_fragment_length=10)
        .training(model={"dim": 10, "conv_filters": [[2, 5, 5]]}, num_steps_sampled_before_learning_starts=300)
        .training(train_batch_size=8, replay_buffer_config={"capacity": 1000})
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=320)
        .debugging(seed=1)
    )
    algorithm = config.build()
    result = algorithm.train()
    games = result["hist_stats"]["episode_reward"]
    assert 1 <= len(games) <= 4
    assert all(200 < score <= 300 for score in games), "150 frames of 2 points, but for those before the first step"
    kept = algorithm.replay.ring.columns
    assert kept[columns.OBS].shape[1:] == (10, 10, 4) and kept[columns.OBS].dtype == np.uint8
    rows = len(algorithm.replay.ring)
    assert kept[columns.TERMINATEDS][:rows].sum() > len(games), "lives end transitions, more often than games end"
    assert set(np.unique(kept[columns.REWARDS][:rows])) == {1.0}, "what is learned from are the signs of rewards"

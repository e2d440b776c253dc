"""Games of Atari as algorithms meet them: see test_rllib_real_environments.py for what they need."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.envs.atari import LIFE_LOST, MaxAndSkipEnv
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.making import make_vector
from kernel_rllib.envs.snapshots import copy_trial
from kernel_rllib.training.parts import env_maker_of


def config_of(name: str) -> DQNConfig:
    config = DQNConfig().environment(name)
    config.env_runners(preprocessor_pref="deepmind")
    return config


@pytest.mark.parametrize(
    ("name", "skips"),
    [("PongNoFrameskip-v4", True), ("PongDeterministic-v4", False), ("ALE/Breakout-v5", False)],
)
def test_games_become_small_gray_pictures_of_four_frames(name: str, skips: bool) -> None:
    env = env_maker_of(config_of(name))(EnvContext())
    obs, _ = env.reset(seed=1)
    assert obs.shape == (84, 84, 4) and obs.dtype == np.uint8 and obs.max() > 0
    wrappers = []
    while hasattr(env, "env"):
        wrappers.append(type(env))
        env = env.env
    assert (MaxAndSkipEnv in wrappers) is skips


def test_breakout_loses_five_lives_in_one_game() -> None:
    lanes = make_vector(env_maker_of(config_of("BreakoutNoFrameskip-v4")))
    lanes.reset([3])
    lives = []
    while len(lives) < 5:
        step = lanes.step(np.array([0]))
        if step.terminateds[0]:
            lives.append(LIFE_LOST in step.infos.get(0, {}))
    assert lives == [True, True, True, True, False]


def test_copies_of_a_wrapped_game_go_on_as_the_original() -> None:
    make = env_maker_of(config_of("BreakoutNoFrameskip-v4"))
    assert copy_trial(lambda: make_vector(make)) == ""  # type: ignore[arg-type, return-value]

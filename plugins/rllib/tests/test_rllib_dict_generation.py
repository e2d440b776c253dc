"""Whose defaults a dict of settings gets: those of the generation whose names its keys are."""

from __future__ import annotations

from typing import Any

import pytest
from kernel_rllib.algorithms.dqn import DQN
from kernel_rllib.algorithms.ppo import PPO, PPOConfig
from kernel_rllib.config.dict_generation import generation_of_keys
from kernel_rllib.errors import UnknownSettingError
from kernel_rllib.experiments.training import settings_of
from kernel_rllib.training import default_configs


@pytest.mark.parametrize(
    ("given", "generation"),
    [
        ({"num_workers": 0, "lr": 0.1, "eager": False}, "0.8.5"),
        ({"num_sgd_iter": 2, "vf_share_layers": True}, "0.8.5"),
        ({"num_workers": 0, "framework": "torch"}, "1.x"),
        ({"num_rollout_workers": 0}, "2.x"),
        ({"num_env_runners": 0}, "current"),
        ({"lr": 0.1, "gamma": 0.9}, "current"),
        ({"of_my_own": 1}, "current"),
        ({"num_workers": 0, "minibatch_size": 64}, "current"),  # of two generations at once
        ({}, "current"),
    ],
)
def test_keys_tell(given: dict[str, Any], generation: str) -> None:
    assert generation_of_keys(PPOConfig, given) == generation


def test_algorithms_take_the_defaults_that_go_with_the_keys() -> None:
    old = PPO({"num_workers": 0, "env": "CartPole-v0", "train_batch_size": 200})
    today = PPO({"num_env_runners": 0, "env": "CartPole-v0", "train_batch_size": 200})
    assert (old.config.clip_actions, today.config.clip_actions) == (True, False)
    assert (old.config.normalize_actions, today.config.normalize_actions) == (False, True)
    assert DQN._config_of({"num_workers": 0}, "CartPole-v0").replay_buffer_config.capacity == 50_000
    with pytest.raises(UnknownSettingError, match="no setting 'of_my_own'"):
        PPO({"num_workers": 0, "env": "CartPole-v0", "of_my_own": 1})
    assert settings_of("PPO", {"num_workers": 1}).generation == "0.8.5"


def test_all_settings_of_a_generation_come_back_as_that_generation() -> None:
    changed = {**default_configs.PPO, "lr": 0.1, "num_rollout_workers": 0}
    config = PPOConfig.from_dict(changed)
    assert (config.generation, config.lr) == ("2.x", 0.1)
    config.build(env="Pendulum-v1")
    assert PPOConfig.from_dict({"num_workers": 0}).generation == "current"
    with pytest.raises(AttributeError, match="has no attribute 'LeelaChessZero'; there are A2C"):
        default_configs.LeelaChessZero  # noqa: B018 - it is asked for

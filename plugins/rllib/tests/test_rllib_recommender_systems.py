"""The environments of slates by RLlib's names: their settings, and actions as numbers of slates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.bandit import BanditLinUCBConfig
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.envs.checking import check_env
from kernel_rllib.envs.games.recommender_systems import InterestEvolutionRecSimEnv, LongTermSatisfactionRecSimEnv
from kernel_rllib.errors import EnvError

SMALL = {"num_candidates": 4, "slate_size": 2, "resample_documents": True, "seed": 1}


@pytest.mark.parametrize("made", [InterestEvolutionRecSimEnv, LongTermSatisfactionRecSimEnv])
@pytest.mark.parametrize("is_discrete", [False, True])
def test_they_are_environments(made: Any, is_discrete: bool) -> None:
    env = made({**SMALL, "convert_to_discrete_action_space": is_discrete})
    check_env(env, steps=5)
    assert env.action_space == (spaces.Discrete(16) if is_discrete else spaces.MultiDiscrete([4, 4]))


def test_the_number_of_a_slate_stands_for_it() -> None:
    numbered = LongTermSatisfactionRecSimEnv({**SMALL, "convert_to_discrete_action_space": True})
    plain = LongTermSatisfactionRecSimEnv(SMALL)
    for env in (numbered, plain):
        env.reset(seed=3)
    for _ in range(10):
        assert numbered.step(4 * 2 + 1)[1] == plain.step(np.array([2, 1]))[1]


def test_slates_by_number_are_learned_by_dqn_and_contexts_by_bandits() -> None:
    learning = DQNConfig().environment(
        LongTermSatisfactionRecSimEnv, env_config={**SMALL, "convert_to_discrete_action_space": True}
    )
    learning.env_runners(num_env_runners=0).training(model={"fcnet_hiddens": [4]}).reporting(min_time_s_per_iteration=0)
    assert learning.reporting(min_sample_timesteps_per_iteration=8).build().train()["timesteps_total"] >= 8
    bandit = BanditLinUCBConfig().environment(
        InterestEvolutionRecSimEnv, env_config={**SMALL, "wrap_for_bandits": True}
    )
    told = bandit.reporting(min_sample_timesteps_per_iteration=8, min_time_s_per_iteration=0).build().train()
    assert told["timesteps_total"] >= 8


@pytest.mark.parametrize(("made", "settings", "message"), [
    (InterestEvolutionRecSimEnv, {"resample_documents": False}, "draws new documents for each step: leave resam"),
    (LongTermSatisfactionRecSimEnv, {"wrap_for_bandits": True}, "has no contexts for bandits .*: take Interest"),
    (LongTermSatisfactionRecSimEnv, {"slate_sise": 3}, "has no setting 'slate_sise'; did you mean 'slate_size'"),
])  # fmt: skip
def test_what_they_do_not_have_is_refused(made: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(EnvError, match=message):
        made(settings)

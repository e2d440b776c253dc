"""Policies that ship to play against: at random, and by simple rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.config.policy_spec import PolicySpec
from kernel_rllib.envs.games.rock_paper_scissors import RockPaperScissors
from kernel_rllib.first_generation.random_policy import RandomPolicy
from kernel_rllib.first_generation.rock_paper_scissors_policies import AlwaysSameHeuristic, BeatLastHeuristic

POLICIES = {"player_0": "learned", "player_1": "opponent"}


def against(opponent: Any, runners: int = 0) -> Any:
    """Return an algorithm that learns to play against a class."""
    return (
        PPOConfig()
        .environment(RockPaperScissors)
        .env_runners(num_envs=8, num_env_runners=runners, num_cpus_per_env_runner=0)
        .training(train_batch_size=160, minibatch_size=80, num_epochs=8, lr=5e-3, model={"fcnet_hiddens": [16]})
        .multi_agent(
            policies={"learned": PolicySpec(), "opponent": PolicySpec(opponent)},
            policy_mapping_fn=lambda agent, *_, **__: POLICIES[agent],
            policies_to_train=["learned"],
        )
        .debugging(seed=1)
        .build()
    )


def test_a_random_policy_draws_from_any_space() -> None:
    for space in (spaces.Discrete(3), spaces.Box(-2.0, 2.0, (2,)), spaces.Dict(a=spaces.Discrete(2, start=5))):
        policy = RandomPolicy(spaces.Discrete(2), space, {"seed": 1})
        actions, states, extra = policy.compute_actions(np.zeros((40, 2)))
        assert len(actions) == 40 and (states, extra) == ([], {})
        assert all(space.contains(action) for action in actions)
        assert len({str(action) for action in actions}) > 1
        again = RandomPolicy(spaces.Discrete(2), space, {"seed": 1}).compute_actions(np.zeros((40, 2)))[0]
        assert [str(each) for each in again] == [str(each) for each in actions]
    assert (policy.learn_on_batch({}), policy.get_weights()) == ({}, {})


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("opponent", [RandomPolicy, AlwaysSameHeuristic])
def test_what_it_draws_is_the_same_in_any_runner(opponent: Any) -> None:
    alone, elsewhere = against(opponent), against(opponent, runners=2)
    results = [algorithm.train()["hist_stats"] for algorithm in (alone, elsewhere)]
    assert results[0] == results[1]
    assert len(set(results[0]["policy_opponent_reward"])) > 1
    elsewhere.stop()


def test_one_throws_what_beats_the_last_throw_of_the_other() -> None:
    algorithm = against(BeatLastHeuristic)
    assert algorithm.get_policy("opponent").compute_actions(np.eye(4)[:3])[0] == [1, 2, 0]
    assert algorithm.compute_single_action(2, policy_id="opponent") == 0
    first = {algorithm.compute_single_action(3, policy_id="opponent") for _ in range(30)}
    assert first == {0, 1, 2}  # there was no throw yet


def test_one_who_throws_the_same_does_so_for_an_episode() -> None:
    policy = AlwaysSameHeuristic(spaces.Discrete(4), spaces.Discrete(3))
    state = policy.get_initial_state()
    action, after, _ = policy.compute_single_action(np.zeros(4), state)
    assert (action, after) == (state[0], state)

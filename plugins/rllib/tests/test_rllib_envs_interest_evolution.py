"""Interest evolution: its rules are as written, and slates and bandits are learned in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.bandit import BanditLinUCB
from kernel_rllib.algorithms.slateq import SlateQ
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.games.interest_evolution import InterestEvolution
from kernel_rllib.envs.making import make_vector
from kernel_rllib.errors import EnvError
from kernel_rllib.spaces.nested import leaves

FEW = {"num_topics": 6, "num_candidates": 4}


def test_interest_moves_towards_or_away_from_1_by_what_was_watched() -> None:
    env = InterestEvolution({**FEW, "slate_size": 1, "no_click_mass": 0.0, "time_budget": 1e9})
    env.reset(seed=0)
    ups = []
    for _ in range(3000):
        before, topic = env.game.interests[:, 0].copy(), int(env.game.topics[2, 0])
        seen, reward, *_ = env.step(np.array([2]))
        interest, now = before[topic], env.game.interests[topic, 0]
        change = (0.3 - 0.3 * abs(interest)) * (1 - interest)
        assert now == pytest.approx(min(interest + change, 1)) or now == pytest.approx(max(interest - change, -1))
        assert np.delete(env.game.interests[:, 0], topic) == pytest.approx(np.delete(before, topic))
        assert reward == 4 and seen["user"] == pytest.approx(env.game.interests[:, 0], abs=1e-6)
        ups.append((now > interest, (interest + 1) / 2, change > 0))
    rose, chance, moves = np.array(ups, float).T
    assert (rose - chance)[moves > 0].mean() == pytest.approx(0, abs=0.04)
    assert (np.abs(env.game.interests) <= 1).all()


def test_time_goes_by_the_quality_of_what_is_watched() -> None:
    env = InterestEvolution({**FEW, "slate_size": 2, "quality_stddev": 0.0, "time_budget": 100.0})
    env.reset(seed=1)
    ended, watched = False, 0
    while not ended:
        before, topics = float(env.game.time_left[0]), env.game.topics[:2, 0].copy()
        seen, reward, ended, _, _ = env.step(np.array([0, 1]))
        clicks = [response["click"] for response in seen["response"]]
        assert [response["watch_time"][0] for response in seen["response"]] == [4.0 * click for click in clicks]
        if reward:
            quality = env.game.qualities[topics[clicks.index(1)]]
            assert before - env.game.time_left[0] == pytest.approx(4 * (1 - 0.9 / 3.4 * quality))
            watched += 1
        else:
            assert clicks == [0, 0] and before - env.game.time_left[0] == pytest.approx(0.5)
    assert env.game.time_left[0] <= 0 and watched > 0
    assert (env.game.qualities[:4] < 0).all() and (env.game.qualities[4:] > 0).all()


@pytest.mark.parametrize("parametric", [False, True])
def test_many_users_are_stepped_like_one(parametric: bool) -> None:
    settings = EnvContext({**FEW, "parametric": parametric, "time_budget": 12.0})
    one, many = (make_vector(InterestEvolution, 3, settings, kind=kind) for kind in ("loop", "native"))
    seen: list[Any] = [env.reset([1, 2, 3]) for env in (one, many)]
    for step in range(20):
        for ours, theirs in zip(*map(leaves, seen), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        pair = np.array([[0, 1], [2, 3], [step % 4, (step + 1) % 4]])
        steps = [env.step(pair[:, 0] if parametric else pair) for env in (one, many)]
        np.testing.assert_array_equal(steps[0].rewards, steps[1].rewards)
        np.testing.assert_array_equal(steps[0].terminateds, steps[1].terminateds)
        seen = [each.obs for each in steps]


def test_a_linear_bandit_learns_what_users_watch() -> None:
    def watched(algorithm: BanditLinUCB) -> float:
        found = algorithm.evaluate()
        return float(found["episode_reward_mean"] / found["episode_len_mean"] / 4)

    algorithm = BanditLinUCB({
        "env": InterestEvolution, "env_config": {**FEW, "parametric": True}, "seed": 1, "num_envs": 4,
        "evaluation_duration": 30, "evaluation_config": {"explore": False, "num_envs": 10},
    })  # fmt: skip
    assert algorithm.learner.module.features.size == 36
    at_first = watched(algorithm)  # always the first one
    for _ in range(15):
        algorithm.train()
    assert watched(algorithm) > at_first + 0.07


def test_slates_are_learned_in_it() -> None:
    algorithm = SlateQ({
        "env": InterestEvolution, "env_config": FEW, "seed": 1, "num_steps_sampled_before_learning_starts": 32,
        "fcnet_hiddens_per_candidate": [8], "min_time_s_per_iteration": 0, "min_sample_timesteps_per_iteration": 64,
    })  # fmt: skip
    before = algorithm.learner.weights.copy()
    algorithm.train()
    assert not np.array_equal(algorithm.learner.weights, before)


def test_slates_have_as_many_videos_as_there_can_be() -> None:
    with pytest.raises(EnvError, match="slate_size is 5, but a slate has from 1 to num_candidates=4 videos"):
        InterestEvolution({**FEW, "slate_size": 5})

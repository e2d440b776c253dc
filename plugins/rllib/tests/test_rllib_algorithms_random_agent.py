"""RandomAgent: its actions are all alike in every kind of space, and it plays as many episodes as it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.random_agent import RandomAgent, RandomAgentConfig
from kernel_rllib.envs.games.cart_pole import CartPole
from kernel_rllib.envs.games.guess_the_action import GuessTheAction
from kernel_rllib.envs.multi_agent import make_multi_agent
from kernel_rllib.errors import ConfigError
from kernel_rllib.exploration.uniform import UniformActions, rows_drawn
from kernel_rllib.first_generation.trainers import trainer_class
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.spaces.action_rows import actions_of, row_width
from kernel_rllib.spaces.nested import unstack
from kernel_rllib.spaces.simplex import Simplex
from kernel_rllib.training.registry import algorithm_class


def made(**settings: Any) -> RandomAgent:
    return RandomAgent({"env": "CartPole-v1", "seed": 1, **settings})


def test_an_iteration_plays_so_many_episodes_and_reports_their_mean() -> None:
    algorithm = made(rollouts_per_iteration=7)
    for iteration in (1, 2):
        result = algorithm.train()
        assert (result["episodes_this_iter"], result["episodes_total"]) == (7, 7 * iteration)
        returns = result["hist_stats"]["episode_reward"]
        assert len(returns) == 7 and result["episode_reward_mean"] == pytest.approx(np.mean(returns))
        assert result["timesteps_this_iter"] == sum(result["hist_stats"]["episode_lengths"])
    assert result["timesteps_total"] == algorithm.env_steps_sampled


def test_ten_episodes_are_usual() -> None:
    assert algorithm_class("contrib/RandomAgent") is RandomAgent
    assert RandomAgentConfig().rollouts_per_iteration == 10
    assert trainer_class("contrib/RandomAgent")({"env": "CartPole-v0"}).train()["episodes_this_iter"] >= 10


def test_the_mean_is_that_of_uniform_play() -> None:
    found = made(env=GuessTheAction, num_envs=50, rollouts_per_iteration=3000).train()
    assert abs(found["episode_reward_mean"] - 0.25) < 3 * np.sqrt(0.25 * 0.75 / 3000)


def test_episodes_are_as_long_as_those_that_gymnasium_samples() -> None:
    env, lengths = CartPole(), []
    env.action_space.seed(0)
    for episode in range(300):
        env.reset(seed=episode)
        steps, ended = 0, False
        while not ended:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            steps, ended = steps + 1, terminated or truncated
        lengths.append(steps)
    ours = made(rollouts_per_iteration=300, num_envs=4).train()["hist_stats"]["episode_lengths"]
    error = np.sqrt(np.var(lengths) / len(lengths) + np.var(ours) / len(ours))
    assert abs(np.mean(ours) - np.mean(lengths)) < 3 * error


SPACES: list[spaces.Space[Any]] = [
    spaces.Discrete(5, start=3),
    spaces.MultiDiscrete([2, 3, 4]),
    spaces.MultiBinary(3),
    spaces.Box(-2.0, 5.0, (2, 2)),
    spaces.Box(np.array([0.0, -np.inf, -np.inf], np.float32), np.array([np.inf, 0.0, np.inf], np.float32)),
    spaces.Box(-1, 3, (2,), np.int64),
    Simplex((3,), np.array([1.0, 2.0, 3.0])),
    spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Tuple([spaces.Box(-1.0, 1.0, (1,)), spaces.MultiBinary(2)])}),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_actions_are_drawn_as_their_space_draws_them(space: spaces.Space[Any]) -> None:
    count = 4000
    uniforms = np.random.default_rng(0).random((count, row_width(space)), np.float32)
    actions = actions_of(space, UniformActions(space).choose(NumpyOps(), {}, uniforms, 0))
    drawn = unstack(space, actions)
    space.seed(1)
    assert all(space.contains(action) for action in drawn)
    ours = np.array([spaces.flatten(space, action) for action in drawn], float)
    theirs = np.array([spaces.flatten(space, space.sample()) for _ in range(count)], float)
    error = np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / count)
    assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 4 * error + 1e-9).all()
    np.testing.assert_allclose(ours.std(axis=0), theirs.std(axis=0), rtol=0.15)


def test_the_uniform_number_0_draws_no_infinity() -> None:
    for space in SPACES:
        assert np.isfinite(rows_drawn(space, np.zeros((2, row_width(space)), np.float32))).all()


class Pictures(gymnasium.Env[Any, Any]):
    """Shows pictures, and takes actions of several kinds; each must be one of its space."""

    observation_space = spaces.Box(0.0, 1.0, (8, 8, 3), np.float32)
    action_space = SPACES[-1]

    def __init__(self, config: Any = None) -> None:
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._steps = 0
        return np.zeros((8, 8, 3), np.float32), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self._steps += 1
        return np.zeros((8, 8, 3), np.float32), 1.0, self._steps == 3, False, {}


def test_it_plays_with_pictures_and_with_actions_of_any_kind() -> None:
    algorithm = made(env=Pictures, evaluation_config={"explore": False})
    assert algorithm.train()["episode_reward_mean"] == 3
    assert algorithm.evaluate()["episode_reward_mean"] == 3
    assert Pictures.action_space.contains(algorithm.compute_single_action(np.zeros((8, 8, 3), np.float32)))


def test_it_is_random_while_it_is_evaluated_too() -> None:
    algorithm = made(env=GuessTheAction, evaluation_duration=400, evaluation_config={"explore": False})
    assert 0.1 < algorithm.evaluate()["episode_reward_mean"] < 0.4


def test_it_goes_on_after_a_checkpoint(tmp_path: Path) -> None:
    straight, resumed = made(), made()
    straight.train()
    resumed.restore(straight.save(str(tmp_path / "checkpoint")))
    found = [algorithm.train()["hist_stats"]["episode_lengths"] for algorithm in (straight, resumed)]
    assert found[0] == found[1]


@pytest.mark.usefixtures("session")
def test_the_episodes_are_the_same_for_any_number_of_runners() -> None:
    found = []
    for runners in (0, 2):
        algorithm = made(num_env_runners=runners, num_envs=2)
        found.append(algorithm.train()["hist_stats"]["episode_lengths"])
        algorithm.stop()
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"lr": 0.1}, "lr has no effect on RandomAgent: it learns nothing"),
        ({"explore": False}, "explore has no effect on RandomAgent: all its actions are random"),
        ({"model": {"conv_filters": [[4, 3, 1]]}}, "has no effect on RandomAgent: it has no network"),
        ({"env": make_multi_agent("CartPole-v1"), "env_config": {"num_agents": 2},
          "multiagent": {"policies": {"one"}, "policy_mapping_fn": lambda *_, **__: "one"}},
         "RandomAgent.*: it plays one agent, and the environment has several; give agents the policy RandomPolicy"),
    ],
)  # fmt: skip
def test_what_has_no_effect_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(**settings)

"""Rows of actions: what environments get of them, the way back, and which of them Q-learning takes."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.simple_q import SimpleQConfig
from kernel_rllib.errors import ConfigError, SpaceError
from kernel_rllib.spaces.action_rows import actions_of, row_bounds, row_space, row_width, rows_of

BOX = spaces.Box(np.array([[-1.0, 0.0], [2.0, -3.0]], np.float32), np.array([[1.0, 5.0], [4.0, 3.0]], np.float32))
EVERY: dict[str, tuple[spaces.Space[Any], int]] = {
    "discrete": (spaces.Discrete(3), 1),
    "discrete from 5": (spaces.Discrete(3, start=5), 1),
    "discrete from -2": (spaces.Discrete(4, start=-2), 1),
    "multi discrete": (spaces.MultiDiscrete([2, 3, 4]), 3),
    "multi discrete from elsewhere": (spaces.MultiDiscrete([2, 3], start=[4, -1]), 2),
    "multi discrete of two axes": (spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])), 4),
    "multi binary": (spaces.MultiBinary(4), 4),
    "box": (BOX, 4),
    "box of doubles": (spaces.Box(-1, 1, (3,), np.float64), 3),
    "tuple": (spaces.Tuple([spaces.Discrete(3, start=1), BOX, spaces.MultiBinary(2)]), 7),
    "dict": (spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Tuple([spaces.Discrete(2, start=9)])}), 3),
}
every = pytest.mark.parametrize("name", EVERY)


def lanes_of(space: spaces.Space[Any], count: int) -> list[Any]:
    """Return as many samples of a space, always the same ones. Rows have single precision, so doubles are rounded."""
    space.seed(7)
    samples = [space.sample() for _ in range(count)]
    if space.dtype == np.float64:
        return [sample.astype(np.float32).astype(np.float64) for sample in samples]
    return samples


def stacked(space: spaces.Space[Any], samples: list[Any]) -> Any:
    """Return samples as one struct with lanes in front."""
    if isinstance(space, spaces.Dict):
        return {key: stacked(child, [sample[key] for sample in samples]) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(stacked(child, [sample[at] for sample in samples]) for at, child in enumerate(space.spaces))
    return np.stack([np.asarray(sample) for sample in samples])


def lane(actions: Any, index: int) -> Any:
    """Return the action of one lane of a struct."""
    if isinstance(actions, dict):
        return {key: lane(value, index) for key, value in actions.items()}
    if isinstance(actions, tuple):
        return tuple(lane(value, index) for value in actions)
    return actions[index]


@every
def test_actions_come_back_from_their_rows(name: str) -> None:
    space, width = EVERY[name]
    samples = lanes_of(space, 6)
    rows = rows_of(space, stacked(space, samples))
    assert row_width(space) == width and rows.size == 6 * width
    back = actions_of(space, rows)
    for index, sample in enumerate(samples):
        action = lane(back, index)
        assert space.contains(action), (action, sample)
        np.testing.assert_equal(action, sample)


@every
def test_rows_are_counted_from_zero(name: str) -> None:
    space, _ = EVERY[name]
    rows = rows_of(space, stacked(space, lanes_of(space, 20)))
    if rows.dtype.kind == "i":
        assert rows.min() == 0
    learned = row_space(space)
    drawn = rows_of(learned, stacked(learned, lanes_of(learned, 3)))
    np.testing.assert_array_equal(rows_of(space, actions_of(space, drawn)), drawn)


def test_bounds_are_those_of_all_boxes_side_by_side() -> None:
    low, high = row_bounds(spaces.Tuple([BOX, spaces.Box(-np.inf, np.inf, (1,))]))
    assert low.tolist() == [-1.0, 0.0, 2.0, -3.0, -np.inf] and high.tolist() == [1.0, 5.0, 4.0, 3.0, np.inf]
    with pytest.raises(SpaceError, match=r"Discrete\(2\) has no bounds: a Box was expected"):
        row_bounds(spaces.Dict({"a": spaces.Discrete(2)}))


def test_a_space_without_actions_is_refused() -> None:
    with pytest.raises(SpaceError, match=r"Text\(.* can't be an action space: use Discrete, MultiDiscrete"):
        row_width(spaces.Text(3))


class FromFive(gym.Env[Any, Any]):
    """Takes actions 5, 6 and 7, and pays for 7."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(3, start=5)

    def __init__(self, config: Any = None) -> None:
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin."""
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Pay, and refuse what is no action."""
        assert self.action_space.contains(action), action
        self.steps += 1
        return np.zeros(2, np.float32), float(np.all(action == 7)), self.steps == 10, False, {}


class ManyAtOnce(FromFive):
    """Takes two numbers at once."""

    action_space = spaces.MultiDiscrete([2, 2])


class Forces(FromFive):
    """Takes a force."""

    action_space = spaces.Box(-1, 1, (1,))


def small(config: Any, env: Any) -> Any:
    """Return settings of short training."""
    made = config().environment(env).env_runners(num_env_runners=0, rollout_fragment_length=4)
    made.training(train_batch_size=16, num_steps_sampled_before_learning_starts=32, lr=0.01, epsilon=0.5, gamma=0.5)
    made.training(target_network_update_freq=8, model={"fcnet_hiddens": [8]})
    return made.reporting(min_sample_timesteps_per_iteration=200).debugging(seed=1)


@pytest.mark.parametrize("config", [SimpleQConfig, DQNConfig])
def test_q_learning_takes_discrete_actions_from_any_start(config: Any) -> None:
    algorithm = small(config, FromFive).build()
    algorithm.train()
    assert set(algorithm.sample().columns["actions"].ravel().tolist()) <= {0, 1, 2}
    assert algorithm.compute_single_action(np.zeros(2, np.float32), explore=False) == 7


@pytest.mark.parametrize("config", [SimpleQConfig, DQNConfig])
@pytest.mark.parametrize(("env", "space"), [(ManyAtOnce, r"MultiDiscrete\(\[2 2\]\)"), (Forces, "Box")])
def test_q_learning_refuses_other_actions(config: Any, env: Any, space: str) -> None:
    name = config.algorithm
    with pytest.raises(ConfigError, match=f"{name}.* learns a value for each action of a Discrete space, .*{space}"):
        small(config, env).build()

"""Environments of the older interface: four values, resets without infos, seeds by a method."""

from __future__ import annotations

import types
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.envs.loop import LoopEnv
from kernel_rllib.envs.old_gym import five_values, modern_space
from kernel_rllib.errors import EnvError, SpaceError

ONE = np.zeros(1, np.int64)


class Corridor:
    """The example of the documents of 0.8.5: lists for a Box of floats, whole numbers as rewards."""

    def __init__(self) -> None:
        self.end_pos = 3
        self.cur_pos = 0
        self.action_space = spaces.Discrete(2)
        self.observation_space = spaces.Box(0.0, self.end_pos, shape=(1,))
        self.seeds: list[Any] = []

    def seed(self, seed: int | None = None) -> None:
        self.seeds.append(seed)

    def reset(self) -> Any:
        self.cur_pos = 0
        return [self.cur_pos]

    def step(self, action: int) -> Any:
        self.cur_pos += 1
        done = self.cur_pos >= self.end_pos
        return [self.cur_pos], 1 if done else 0, done, {}


def test_four_values_and_a_reset_without_infos() -> None:
    env = LoopEnv([Corridor] * 2)
    assert env.reset([7, None]).tolist() == [[0], [0]]
    steps = [env.step(np.zeros(2, np.int64)) for _ in range(4)]
    assert [step.rewards.tolist() for step in steps] == [[0, 0], [0, 0], [1, 1], [0, 0]]
    assert steps[2].terminateds.all() and not steps[2].truncateds.any()
    assert steps[2].final_obs[1].tolist() == [3] and steps[2].obs.tolist() == [[0], [0]]
    assert env.foreach(lambda inner: inner.seeds) == [[7], []]


def test_a_time_limit_is_told_by_the_info() -> None:
    class Limited(Corridor):
        def step(self, action: int) -> Any:
            obs, reward, done, _ = super().step(action)
            return obs, reward, done, {"TimeLimit.truncated": done}

    env = LoopEnv([Limited])
    env.reset([0])
    for _ in range(3):
        step = env.step(ONE)
    assert step.truncateds[0] and not step.terminateds[0]


def test_new_steps_with_old_resets_and_the_other_way_round() -> None:
    class NewStep(Corridor):
        def step(self, action: int) -> Any:
            obs, reward, done, info = super().step(action)
            return obs, reward, False, done, info

    class NewReset(Corridor):
        def reset(self) -> Any:
            return super().reset(), {"told": 1}

    env = LoopEnv([NewStep])
    env.reset([0])
    assert [env.step(ONE).truncateds[0] for _ in range(3)] == [False, False, True]
    env = LoopEnv([NewReset])
    assert env.reset([0]).tolist() == [[0]] and env.reset_infos == {0: {"told": 1}}
    assert not env.step(ONE).terminateds[0]


def test_an_old_environment_inside_of_gymnasium_is_found() -> None:
    class Old(gymnasium.Env[Any, Any]):
        observation_space = spaces.Box(0, 1, (1,))
        action_space = spaces.Discrete(2)

        def reset(self) -> Any:  # type: ignore[override]
            return [self.np_random.random()]

        def step(self, action: Any) -> Any:
            return [self.np_random.random()], 0.0, False, {}

    gymnasium.register("TestOldGym-v0", Old, max_episode_steps=2)
    try:
        env = LoopEnv([lambda: gymnasium.make("TestOldGym-v0", disable_env_checker=True)])
        first = env.reset([3])
        assert [env.step(ONE).truncateds[0] for _ in range(4)] == [False, True, False, True]
        np.testing.assert_array_equal(env.reset([3]), first)  # its np_random was seeded, as its reset takes no seed
    finally:
        del gymnasium.registry["TestOldGym-v0"]


@pytest.mark.parametrize("new", [True, False])
def test_an_observation_that_is_a_pair_with_a_dict(new: bool) -> None:
    class Pair(Corridor):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = spaces.Tuple([spaces.Discrete(2), spaces.Dict({"a": spaces.Discrete(2)})])

        def reset(self) -> Any:
            return ((1, {"a": 1}), {}) if new else (1, {"a": 1})

        def step(self, action: int) -> Any:
            return (0, {"a": 1}), 0.0, False, {}

    obs = LoopEnv([Pair]).reset([0])
    assert obs[0].tolist() == [1] and obs[1]["a"].tolist() == [1]


def test_a_pair_that_is_not_quite_of_the_space_is_an_observation_with_infos() -> None:
    class Pair(Corridor):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = spaces.Tuple([spaces.Discrete(2), spaces.Dict({"a": spaces.Discrete(2)})])

        def reset(self) -> Any:
            return [1, {"a": 1}], {"told": 1}

    env = LoopEnv([Pair])
    assert env.reset([0])[0].tolist() == [1] and env.reset_infos == {0: {"told": 1}}


def test_seeds_are_passed_where_they_are_taken() -> None:
    class Keywords(Corridor):
        def reset(self, **options: Any) -> Any:
            self.seeds.append(options)
            return super().reset(), {}

    env = LoopEnv([Keywords])
    env.reset([4])
    env.reset([None])
    assert env.foreach(lambda inner: inner.seeds) == [[{"seed": 4}, {}]]


def test_a_reset_that_changes_its_mind() -> None:
    class Changing(Corridor):
        count = 0

        def reset(self) -> Any:
            Changing.count += 1
            return ([0], {}) if Changing.count == 1 else 0

    env = LoopEnv([Changing])
    env.reset([0])
    with pytest.raises(EnvError, match=r"Changing.reset\(\) returned 0, but \(observation, info\) before"):
        env.reset([0])


@pytest.mark.parametrize("returned", [(1, 2, 3), None, 5, (1, 2, 3, 4, 5, 6)])
def test_what_is_no_step(returned: Any) -> None:
    words = f"{len(returned)} values" if isinstance(returned, tuple) else repr(returned)
    with pytest.raises(EnvError, match=rf"Maze.step\(\) returned {words}: return \(observation, reward, terminated"):
        five_values(returned, "Maze")

    class Wrong(Corridor):
        def step(self, action: int) -> Any:
            return returned

    env = LoopEnv([Wrong])
    env.reset([0])
    with pytest.raises(EnvError, match=r"^Wrong.step\(\) returned"):
        env.step(ONE)


def test_spaces_of_old_gym_become_those_of_gymnasium() -> None:
    def old(kind: str, **attributes: Any) -> Any:
        made = type(kind, (), {})
        made.__module__ = f"gym.spaces.{kind.lower()}"
        space = made()
        vars(space).update(attributes)
        return space

    box = old("Box", low=np.zeros(2, np.float32), high=np.ones(2, np.float32), shape=(2,), dtype=np.dtype(np.float32))
    nested = old("Dict", spaces={"a": box, "b": old("Tuple", spaces=(old("Discrete", n=3), old("MultiBinary", n=2)))})
    assert modern_space(nested) == spaces.Dict(
        {"a": spaces.Box(0, 1, (2,)), "b": spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2)])}
    )
    assert modern_space(old("MultiDiscrete", nvec=[2, 3])) == spaces.MultiDiscrete([2, 3])
    with pytest.raises(SpaceError, match="is a space of old gym that gymnasium has no space for"):
        modern_space(old("Odd"))
    plain = types.SimpleNamespace()
    assert modern_space(plain) is plain

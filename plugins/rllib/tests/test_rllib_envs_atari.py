"""What is put around games of Atari, on a console that is a few lines of Python; the real one is in tests_envs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.envs import atari
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.making import make_vector
from kernel_rllib.errors import ConfigError
from kernel_rllib.testing.console import Console
from kernel_rllib.training.parts import env_maker_of


def shown(obs: Any) -> list[int]:
    return [int(value) for value in np.asarray(obs)[0, 0]]


def test_games_begin_after_some_steps_of_nothing() -> None:
    env = atari.NoopResetEnv(Console(), noop_max=5)
    counts = [len(env.unwrapped.actions) for seed in range(60) if env.reset(seed=seed)]  # type: ignore[attr-defined]
    assert set(counts) == {1, 2, 3, 4, 5}
    assert set(env.unwrapped.actions) == {0}  # type: ignore[attr-defined]
    assert shown(env.reset(seed=3)[0]) == shown(env.reset(seed=3)[0])


def test_an_action_lasts_four_frames_of_which_the_brighter_of_two_is_shown() -> None:
    class Flickers(Console):
        """Shows each second frame dark."""

        def screen(self) -> Any:
            return np.full((210, 160, 3), self.frames if self.frames % 2 else 0, np.uint8)

    env = atari.MaxAndSkipEnv(Flickers(life=2))
    env.reset()
    obs, reward, terminated, *_ = env.step(2)
    assert (shown(obs), reward, terminated) == ([3, 3, 3], 8.0, False)
    assert env.unwrapped.actions == [2] * 4  # type: ignore[attr-defined]
    obs, reward, terminated, *_ = env.step(1)
    assert (shown(obs), reward, terminated) == ([5, 5, 5], 4.0, True), "the game is over after two more frames"


def test_an_episode_is_a_life_and_the_game_goes_on() -> None:
    env = atari.EpisodicLifeEnv(Console(life=3))
    env.reset()
    steps = [env.step(0) for _ in range(3)]
    assert [step[2] for step in steps] == [False, False, True] and steps[-1][4] == {atari.LIFE_LOST: True}
    obs, _ = env.reset()
    assert shown(obs)[0] == 4 and env.unwrapped.games == 1  # type: ignore[attr-defined]
    ends = []
    while env.unwrapped.games == 1:  # type: ignore[attr-defined]
        *_, terminated, _, info = env.step(0)
        if terminated:
            ends.append(dict(info))
            env.reset()
    assert ends == [{atari.LIFE_LOST: True}, {}]
    [env.step(0) for _ in range(3)]
    env.reset(seed=1)
    assert env.unwrapped.games == 3, "a seed begins a game"  # type: ignore[attr-defined]


def test_pictures_are_small_gray_and_stacked_oldest_first() -> None:
    env = atari.wrap_deepmind(Console(), dim=42)
    assert env.observation_space == Box(0, 255, (42, 42, 4), np.uint8)
    obs, _ = env.reset(seed=0)
    first = shown(obs)[0]
    assert shown(obs) == [first] * 4 and env.unwrapped.actions == [0] * (first - 1) + [1], "it fires after nothing"
    assert shown(env.step(2)[0]) == [first, first, first, first + 1]
    assert atari.wrap_deepmind(Console(), framestack=False).observation_space.shape == (84, 84, 1)
    assert atari.ClipRewardEnv(Console()).reward(-7.0) == -1.0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: atari.NoopResetEnv(Console(), 0), "noop_max is 0; give a number of steps from 1 on"),
        (lambda: atari.MaxAndSkipEnv(Console(), 0), "skip is 0; give a number of frames from 1 on"),
        (lambda: atari.FrameStack(Console(), 0), "k is 0; give a number of pictures from 1 on"),
    ],
)
def test_wrong_numbers_are_refused(make: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make()


def with_console(**model: Any) -> Any:
    config = DQNConfig().environment(Console, env_config={"life": 20}, is_atari=True)
    return config.env_runners(num_env_runners=0, num_envs=1, preprocessor_pref="deepmind").training(model=model)


def test_settings_say_what_is_put_around_games() -> None:
    def shape(config: Any) -> Any:
        return env_maker_of(config)(EnvContext()).observation_space.shape

    assert shape(with_console()) == (84, 84, 4)
    assert shape(with_console(framestack=False, dim=42)) == (42, 42, 1)
    assert shape(with_console().env_runners(preprocessor_pref="rllib")) == (210, 160, 3)
    assert shape(with_console().environment(is_atari=False)) == (210, 160, 3)
    assert shape(DQNConfig().environment("CartPole-v1", is_atari=True)) == (4,)


def test_copies_of_a_lane_go_on_alike() -> None:
    lanes = [make_vector(lambda context: atari.wrap_deepmind(Console(life=9), 42)) for _ in range(2)]
    lanes[0].reset([4])
    lanes[0].step(np.array([2]))
    lanes[1].reset([5])
    lanes[1].restore(0, lanes[0].snapshot(0))
    for _ in range(25):
        one, other = (each.step(np.array([0])) for each in lanes)
        assert one.obs.tobytes() == other.obs.tobytes() and one.terminateds == other.terminateds

"""Environments of other libraries, as they are: not part of the whole suite.

Install what they need: `pip install mujoco imageio ale-py envpool pettingzoo pygame`, then
`pytest plugins/rllib/tests_envs`.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from kernel_rllib.envs.checking import check_env
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.foreign_vectors import EnvPoolVector
from kernel_rllib.envs.making import make_vector
from kernel_rllib.envs.registry import env_maker
from kernel_rllib.envs.snapshots import copy_trial
from kernel_rllib.spaces.pixels import GrayPreprocessor, pixel_preprocessor

MUJOCO = ["Ant-v5", "HalfCheetah-v5", "Hopper-v5", "Humanoid-v5", "InvertedPendulum-v5", "InvertedDoublePendulum-v5",
          "Pusher-v5", "Reacher-v5", "Swimmer-v5", "Walker2d-v5"]  # fmt: skip
ATARI = ["ALE/Pong-v5", "PongNoFrameskip-v4", "PongDeterministic-v4", "BreakoutNoFrameskip-v4"]


@pytest.mark.parametrize("name", [*MUJOCO, *ATARI])
def test_copies_go_on_as_the_original(name: str) -> None:
    assert copy_trial(lambda: make_vector(name)) == ""  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("name", [*MUJOCO, *ATARI])
def test_they_pass_the_check(name: str) -> None:
    warnings = check_env(name)  # games of Atari are longer than the check, and have a limit of their own
    assert warnings == [] or (name in ATARI and "no episode ended" in warnings[0])


def test_a_changed_model_is_copied_with_the_state() -> None:
    first, second = make_vector("HalfCheetah-v5"), make_vector("HalfCheetah-v5")
    first.reset([1])
    second.reset([2])
    first.foreach(lambda env: env.unwrapped.model.body_mass.__imul__(2))
    actions = np.full((1, 6), 0.5, np.float32)
    first.step(actions)
    second.restore(0, first.snapshot(0))
    for _ in range(20):
        one, other = first.step(actions), second.step(actions)
        np.testing.assert_array_equal(one.obs, other.obs)


def test_four_frames_a_step() -> None:
    def frames(name: str) -> int:
        env = env_maker(name)(EnvContext())
        env.reset(seed=0)
        env.step(0)
        return int(env.unwrapped.ale.getEpisodeFrameNumber())

    assert (frames("PongNoFrameskip-v4"), frames("PongDeterministic-v4")) == (1, 4)


@pytest.mark.parametrize(
    ("name", "shape", "frames", "repeats"),
    [
        ("Pong-v0", (210, 160, 3), (2, 5), 0.25),
        ("Pong-v4", (210, 160, 3), (2, 5), 0.0),
        ("PongDeterministic-v0", (210, 160, 3), 4, 0.25),
        ("Pong-ram-v4", (128,), (2, 5), 0.0),
        ("Pong-ramDeterministic-v4", (128,), 4, 0.0),
        ("Pong-ramNoFrameskip-v0", (128,), 1, 0.25),
    ],
)
def test_older_names_of_games_mean_what_they_meant(name: str, shape: Any, frames: Any, repeats: float) -> None:
    env = env_maker(name)(EnvContext())
    assert (env.observation_space.shape, env.unwrapped._frameskip) == (shape, frames)
    assert env.unwrapped.ale.getFloat("repeat_action_probability") == repeats
    assert env.reset(seed=0)[0].shape == shape


def test_pixels_of_pong() -> None:
    env = gymnasium.make("ALE/Pong-v5")
    gray = pixel_preprocessor(env.observation_space)
    assert isinstance(gray, GrayPreprocessor)
    small = gray.transform(env.reset(seed=0)[0])
    assert small.shape == (84, 84, 1) and len(np.unique(small)) > 2


def test_envpool_begins_the_next_episode_in_the_same_step() -> None:
    import envpool

    def make(config: Any) -> Any:
        return envpool.make("CartPole-v1", env_type="gymnasium", num_envs=4, seed=3)

    env = make_vector(make, 4)
    assert isinstance(env, EnvPoolVector)
    obs = env.reset([None] * 4)
    lengths = np.zeros(4, int)
    ends = 0
    for _ in range(200):
        step = env.step(np.ones(4, np.int64))
        lengths += 1
        for lane, final in step.final_obs.items():
            assert abs(final[2]) > 0.2 and np.abs(step.obs[lane]).max() <= 0.05 and 7 <= lengths[lane] <= 11
            lengths[lane], ends = 0, ends + 1
        assert (step.rewards == 1).all() and step.void == ()
        assert np.abs(step.obs - obs).max() < 10
    assert ends > 60
    env.close()

"""The game of a speaker and a listener: what each sees, how the listener moves, what both get."""

from __future__ import annotations

import numpy as np
from kernel_rllib.envs.checking import check_first_step
from kernel_rllib.envs.games.cooperative_communication import CooperativeCommunication


def test_it_is_an_environment_as_they_are_checked() -> None:
    check_first_step(CooperativeCommunication())
    small = CooperativeCommunication({"landmarks": 2, "steps": 3})
    assert small.observation_spaces["listener"].shape == (8,)
    small.reset(seed=1)
    ends = [small.step({"speaker": 0, "listener": 0})[3]["__all__"] for _ in range(3)]
    assert ends == [False, False, True]


def test_the_listener_moves_as_it_is_pushed_and_slows_down() -> None:
    env = CooperativeCommunication()
    env.reset(seed=3)
    place, velocity = env._place.copy(), np.zeros(2)
    pushes = {0: (0, 0), 1: (1, 0), 2: (-1, 0), 3: (0, 1), 4: (0, -1)}
    for push in (1, 1, 3, 0, 2, 4, 0):
        velocity = 0.75 * velocity + 0.5 * np.array(pushes[push])
        place = place + 0.1 * velocity
        seen, rewards, *_ = env.step({"speaker": 2, "listener": push})
        np.testing.assert_allclose(seen["listener"][:2], velocity, rtol=1e-6)
        np.testing.assert_allclose(seen["listener"][2:8], (env._landmarks - place).ravel(), rtol=1e-5, atol=1e-6)
        distance = float(((place - env._landmarks[env._goal]) ** 2).sum())
        assert np.isclose(rewards["speaker"], -distance)
        assert rewards["speaker"] == rewards["listener"]


def test_what_is_said_is_heard_and_only_the_speaker_sees_the_goal() -> None:
    env = CooperativeCommunication()
    seen, _ = env.reset(seed=5)
    assert seen["speaker"] == env._goal
    assert not seen["listener"][-3:].any()
    seen, *_ = env.step({"speaker": 1, "listener": 0})
    assert seen["listener"][-3:].tolist() == [0, 1, 0]
    goals = {env.reset(seed=seed)[0]["speaker"] for seed in range(20)}
    assert goals == {0, 1, 2}


def test_it_says_whether_the_listener_ended_on_the_goal() -> None:
    env = CooperativeCommunication({"steps": 1})
    for offset, expected in ((0.1, True), (0.12, False)):
        env.reset(seed=1)
        env._place = env._landmarks[env._goal] + [offset, 0]
        *_, infos = env.step({"speaker": 0, "listener": 0})
        assert infos["listener"]["on_target"] is expected


def test_the_same_seed_begins_the_same_episode() -> None:
    one, other = CooperativeCommunication(), CooperativeCommunication()
    np.testing.assert_array_equal(one.reset(seed=9)[0]["listener"], other.reset(seed=9)[0]["listener"])

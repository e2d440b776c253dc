"""Lanes in actors of their own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from kernel_rllib.envs.actors import ActorsEnv, MultiAgentActors
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.contract import VectorEnv
from kernel_rllib.envs.games.two_step_game import TwoStepGame
from kernel_rllib.envs.lane import restart_seed
from kernel_rllib.envs.loop import LoopEnv
from kernel_rllib.envs.making import make_vector
from kernel_rllib.envs.multi_agent import ALL
from kernel_rllib.envs.multi_agent_loop import MultiAgentLoop
from kernel_rllib.errors import EnvError
from kernel_rllib.testing.environments import Broken, Counter, Slow, counters

pytestmark = pytest.mark.usefixtures("session")


def test_the_numbers_are_those_of_a_loop() -> None:
    makers = [lambda length=length: Counter(length, tells=True) for length in (2, 3)]
    loop, env = LoopEnv(makers), ActorsEnv(makers)
    assert isinstance(env, VectorEnv)
    assert env.observation_space == loop.observation_space and env.action_space == loop.action_space
    np.testing.assert_array_equal(env.reset([1, 2]), loop.reset([1, 2]))
    assert env.reset_infos == loop.reset_infos
    for number in range(7):
        actions = np.array([number % 5, 1])
        expected, found = loop.step(actions), env.step(actions)
        for field in ("obs", "rewards", "terminateds", "truncateds"):
            np.testing.assert_array_equal(getattr(found, field), getattr(expected, field))
        assert found.infos == expected.infos and found.reset_infos == expected.reset_infos
        assert found.final_obs.keys() == expected.final_obs.keys() and found.void == ()
    assert env.reset_lane(1, seed=9).tolist() == loop.reset_lane(1, seed=9).tolist()
    assert env.reset_infos == loop.reset_infos
    snapshot = env.snapshot(1)
    assert env.step(actions).obs[1].tolist() == loop.step(actions).obs[1].tolist()
    env.restore(1, snapshot)
    assert env.foreach(lambda inner: inner.length) == [2, 3]
    assert env.render(1).tolist() == np.zeros((2, 2, 3)).tolist()
    env.close()


def test_lanes_that_are_ready_go_on() -> None:
    env = ActorsEnv([Counter, lambda: Slow(1000)])
    obs = env.reset([0, 0])
    assert obs.shape == (2, 2)
    env.send([0, 1], np.array([1, 1]))
    for count in (1, 2, 3):
        lanes, step = env.poll()
        assert lanes == [0] and step.obs[:, 0].tolist() == [count] and step.rewards.tolist() == [1]
        env.send(lanes, np.array([1]))
    with pytest.raises(EnvError, match=r"^lane 1 got an action, but has not told yet what its last one did: poll\(\)"):
        env.send([1], np.array([1]))
    lanes, step = env.poll()
    assert lanes == [0] and list(step.final_obs) == [0]
    env.close()


def test_lanes_are_awaited_together() -> None:
    env = ActorsEnv(counters(2), batch_wait_ms=60_000)
    with pytest.raises(EnvError, match=r"step\(\) was called before reset\(\)"):
        env.send([0], np.array([1]))
    env.reset([0, 0])
    with pytest.raises(EnvError, match=r"^poll\(\) was called, but no lane has an action"):
        env.poll()
    with pytest.raises(EnvError, match="^2 lanes need an action each, and got fewer"):
        env.send([0, 1], np.array([1]))
    env.close()
    env = ActorsEnv(counters(2), batch_wait_ms=60_000)
    env.reset([0, 0])
    env.send([1, 0], np.array([3, 4]))
    lanes, step = env.poll()
    assert sorted(lanes) == [0, 1] and [step.rewards[lanes.index(lane)] for lane in (0, 1)] == [4, 3]
    env.close()


def test_a_lane_whose_actor_dies_begins_anew(tmp_path: Path) -> None:
    makers = [Counter, lambda: Broken(2, str(tmp_path / "marker"), "exit")]
    env = ActorsEnv(makers, restart_failed=True)
    env.reset([0, 5])
    before = env.step(np.ones(2, np.int64)).obs.copy()
    step = env.step(np.ones(2, np.int64))
    assert list(step.faults) == [1] and step.void == (1,)
    assert str(step.faults[1]).startswith("the environment of lane 1 is gone with its actor: ")
    assert step.truncateds.tolist() == [False, True] and step.rewards.tolist() == [1, 0]
    np.testing.assert_array_equal(step.final_obs[1], before[1])
    np.testing.assert_array_equal(step.obs[1], LoopEnv(counters(1)).reset([restart_seed(5, 1)])[0])
    assert env.step(np.ones(2, np.int64)).obs[:, 0].tolist() == [3, 1]
    env.close()


def test_an_actor_that_dies_is_an_error_without_restarts() -> None:
    env = ActorsEnv(counters(1))
    env.reset([0])
    (pid,) = env.foreach(lambda inner: os.getpid())
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(EnvError, match="^the environment of lane 0 is gone with its actor"):
        env.step(np.ones(1, np.int64))
    with pytest.raises(EnvError, match="^the environment of lane 0 is gone with its actor"):
        env.snapshot(0)


def test_a_lane_that_raises_names_itself(tmp_path: Path) -> None:
    makers = [Counter, lambda: Broken(1, str(tmp_path / "marker"))]
    env = ActorsEnv(makers)
    env.reset([0, 0])
    with pytest.raises(EnvError, match=r"Broken.step\(\) failed in lane 1, in step 1 of its episode: Runtime"):
        env.step(np.ones(2, np.int64))
    env.close()
    with pytest.raises(EnvError, match="needs one lane at least"):
        ActorsEnv([])


def test_actors_of_a_named_environment() -> None:
    env = make_vector("CartPole-v1", 2, kind="actors")
    assert isinstance(env, ActorsEnv)
    expected = make_vector("CartPole-v1", 2)
    np.testing.assert_array_equal(env.reset([0, 1]), expected.reset([0, 1]))
    np.testing.assert_array_equal(env.step(np.ones(2, np.int64)).obs, expected.step(np.ones(2, np.int64)).obs)
    env.close()

    class Told(Counter):
        def __init__(self, config: EnvContext) -> None:
            super().__init__()
            self.remote = config.remote

    env = make_vector(Told, 1, kind="actors")
    assert env.foreach(lambda inner: inner.remote) == [True]
    env.close()


def test_copies_of_a_multi_agent_environment() -> None:
    loop = MultiAgentLoop([TwoStepGame] * 2)
    env = make_vector(TwoStepGame, 2, kind="actors")
    assert isinstance(env, MultiAgentActors)
    assert env.possible_agents == [0, 1] and env.num_envs == 2
    assert env.observation_space_of(0) == loop.observation_space_of(0)
    assert env.action_space_of(1) == loop.action_space_of(1)
    assert env.reset([0, 1]) == loop.reset([0, 1])
    for actions in ([{0: 1, 1: 1}, {0: 0, 1: 0}], [{0: 1, 1: 1}, {0: 0, 1: 1}]):
        found, expected = env.step(actions), loop.step(actions)
        assert found == expected
    assert found.rewards == [{0: 4.0, 1: 4.0}, {0: 3.5, 1: 3.5}] and found.terminateds[0][ALL]
    assert env.reset_env(0, seed=1) == loop.reset_env(0, seed=1)
    snapshot = env.snapshot(0)
    env.restore(1, snapshot)
    assert env.foreach(lambda inner: type(inner).__name__) == ["TwoStepGame"] * 2
    with pytest.raises(EnvError, match="got the actions of 1 copies, and there are 2"):
        env.step([{}])
    with pytest.raises(NotImplementedError):
        env.render()
    env.close()


def test_a_copy_whose_actor_dies_begins_anew() -> None:
    env = MultiAgentActors([TwoStepGame] * 2, restart_failed=True)
    env.reset([0, 0])
    env.step([{0: 1, 1: 1}] * 2)
    pids = env.foreach(lambda inner: os.getpid())
    os.kill(pids[1], signal.SIGKILL)
    step = env.step([{0: 1, 1: 1}] * 2)
    assert list(step.faults) == [1] and "lane 1 is gone with its actor" in str(step.faults[1])
    assert step.truncateds[1] == {0: True, 1: True, ALL: True} and not any(step.terminateds[1].values())
    assert step.final_obs[1] == {0: 2, 1: 5} and step.obs[1] == {0: 0, 1: 3}
    assert step.rewards == [{0: 4.0, 1: 4.0}, {}]
    step = env.step([{0: 0, 1: 0}] * 2)
    assert not step.faults and step.obs[1] == {0: 1, 1: 4}
    env.close()

"""Lanes that are stepped in a loop: episodes, ends, limits, seeds, infos, and what they cost nobody."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from kernel_rllib.envs.contract import VectorEnv
from kernel_rllib.envs.loop import LoopEnv
from kernel_rllib.errors import EnvError, SpaceError
from kernel_rllib.testing.environments import Counter, Nested, WithoutForm, counters

ONES = np.ones(3, np.int64)


def test_it_fits_the_contract() -> None:
    assert isinstance(LoopEnv(counters(1)), VectorEnv)


def test_steps_give_arrays_of_all_lanes() -> None:
    env = LoopEnv(counters(3))
    obs = env.reset([1, 2, 3])
    assert obs.shape == (3, 2) and obs.dtype == np.float32 and obs[:, 0].tolist() == [0, 0, 0]
    step = env.step(np.array([1, 2, 3]))
    assert step.obs[:, 0].tolist() == [1, 1, 1]
    assert step.rewards.tolist() == [1, 2, 3] and step.rewards.dtype == np.float32
    assert step.terminateds.tolist() == step.truncateds.tolist() == [False] * 3
    assert step.final_obs == step.infos == step.reset_infos == step.faults == {} and step.void == ()


def test_an_ended_episode_is_followed_by_the_next_in_the_same_step() -> None:
    env = LoopEnv([lambda length=length: Counter(length) for length in (2, 3)])
    env.reset([0, 0])
    env.step(ONES[:2])
    step = env.step(ONES[:2])
    assert step.terminateds.tolist() == [True, False] and not step.truncateds.any()
    assert step.obs[:, 0].tolist() == [0, 2]
    assert list(step.final_obs) == [0] and step.final_obs[0][0] == 2
    step = env.step(ONES[:2])
    assert step.terminateds.tolist() == [False, True] and step.obs[:, 0].tolist() == [1, 0]
    assert list(step.final_obs) == [1] and step.final_obs[1][0] == 3


def test_time_limits_truncate() -> None:
    env = LoopEnv([lambda: TimeLimit(Counter(9), 3), lambda: Counter(9), lambda: TimeLimit(Counter(3), 3)])
    env.reset([0, 0, 0])
    for _ in range(2):
        assert not env.step(ONES).truncateds.any()
    step = env.step(ONES)
    assert step.truncateds.tolist() == [True, False, True]
    assert step.terminateds.tolist() == [False, False, True]  # both, as gymnasium has it
    assert step.final_obs[0][0] == 3 and step.obs[:, 0].tolist() == [0, 3, 0]
    for _ in range(2):
        assert not env.step(ONES).truncateds.any()
    assert env.step(ONES).truncateds.tolist() == [True, False, True]


@pytest.mark.parametrize(("own", "given", "expected"), [(5, 3, 3), (3, 5, 3), (None, 2, 2), (4, None, 4)])
def test_the_lower_limit_counts(own: int | None, given: int | None, expected: int) -> None:
    def make() -> Any:
        return Counter(99) if own is None else TimeLimit(Counter(99), own)

    env = LoopEnv([make], max_episode_steps=given)
    env.reset([0])
    lengths = [bool(env.step(ONES[:1]).truncateds[0]) for _ in range(2 * expected)]
    assert lengths == ([False] * (expected - 1) + [True]) * 2


def test_a_limit_in_the_spec_counts_without_a_wrapper() -> None:
    class WithSpec(Counter):
        spec = gymnasium.envs.registration.EnvSpec("Some-v0", max_episode_steps=2)

    env = LoopEnv([lambda: WithSpec(9)])
    env.reset([0])
    assert [bool(env.step(ONES[:1]).truncateds[0]) for _ in range(4)] == [False, True, False, True]


def test_a_limit_that_is_changed_counts_from_the_next_episode() -> None:
    env = LoopEnv([lambda: TimeLimit(Counter(99), 2)])
    env.reset([0])
    assert env.foreach(lambda inner: inner._elapsed_steps) == [0]
    env.foreach(lambda inner: setattr(inner, "_max_episode_steps", 3))
    flags = [bool(env.step(ONES[:1]).truncateds[0]) for _ in range(5)]
    assert flags == [False, True, False, False, True]


def test_wrappers_that_do_more_stay() -> None:
    class Doubled(gymnasium.RewardWrapper[Any, Any]):
        def reward(self, reward: Any) -> Any:
            return 2 * reward

    class OwnLimit(TimeLimit[Any, Any]):
        def step(self, action: Any) -> Any:
            obs, reward, terminated, truncated, info = super().step(action)
            return obs, reward + 10, terminated, truncated, info

    env = LoopEnv([lambda: Doubled(TimeLimit(Counter(9), 2)), lambda: OwnLimit(Counter(9), 2)])
    env.reset([0, 0])
    assert env.step(ONES[:2]).rewards.tolist() == [2, 11]
    assert env.step(ONES[:2]).truncateds.tolist() == [True, True]


def test_seeds_begin_and_the_generators_go_on() -> None:
    def play(lanes: list[int]) -> dict[int, list[float]]:
        env = LoopEnv(counters(len(lanes), length=3))
        drawn = {lane: [row[1]] for lane, row in zip(lanes, env.reset([100 + lane for lane in lanes]), strict=True)}
        for _ in range(7):
            step = env.step(np.ones(len(lanes), np.int64))
            for place, lane in enumerate(lanes):
                drawn[lane] += [float(step.obs[place, 1])]
        return drawn

    together = play([0, 1, 2])
    assert together == {**play([0]), **play([2, 1])}  # whatever the number of lanes in a process
    expected = np.random.Generator(np.random.PCG64(np.random.SeedSequence(100)))
    first = [np.float32(expected.random()) for _ in range(3)]
    assert [np.float32(value) for value in together[0][:3]] == first


def test_reset_without_seed_goes_on_with_the_generator() -> None:
    env = LoopEnv(counters(1))
    first = env.reset([5])[0, 1]
    second = env.reset([None])[0, 1]
    assert second != first and env.reset([5])[0, 1] == first and env.reset([None])[0, 1] == second


def test_infos_are_there_by_lane_and_kind() -> None:
    env = LoopEnv([lambda: Counter(2, tells=True), lambda: Counter(9)])
    env.reset([0, 0])
    assert env.reset_infos == {0: {"begun": True}}
    assert env.step(ONES[:2]).infos == {0: {"count": 1}}
    step = env.step(ONES[:2])
    assert step.infos == {0: {"count": 2}} and step.reset_infos == {0: {"begun": True}}


def test_one_lane_can_be_reset() -> None:
    env = LoopEnv([lambda: TimeLimit(Counter(9, tells=True), 3)] * 2)
    env.reset([0, 0])
    env.step(ONES[:2])
    row = env.reset_lane(1, seed=7)
    assert row[0] == 0 and row[1] == LoopEnv(counters(1)).reset([7])[0, 1]
    assert env.reset_infos == {1: {"begun": True}}
    env.step(ONES[:2])
    assert env.step(ONES[:2]).truncateds.tolist() == [True, False]
    assert env.step(ONES[:2]).truncateds.tolist() == [False, True]


def test_actions_come_as_the_space_samples_them() -> None:
    env = LoopEnv(counters(1))
    env.reset([0])
    env.step(np.array([3]))
    (action,) = env.foreach(lambda inner: inner.actions[0])
    assert action == 3 and isinstance(action, np.int64)

    class Pushed(Counter):
        action_space = spaces.Box(-1, 1, (1,))  # type: ignore[assignment]

        def step(self, action: Any) -> Any:
            self.actions.append(action)
            action += 1  # what is done to it stays here
            return self.seen(), 0.0, False, False, {}

    actions = np.array([[0.5]], np.float32)
    env = LoopEnv([Pushed])
    env.reset([0])
    env.step(actions)
    assert actions.tolist() == [[0.5]]
    actions[:] = 9
    assert env.foreach(lambda inner: inner.actions[0].tolist()) == [[1.5]]


def test_nested_observations_and_actions() -> None:
    env = LoopEnv([Nested] * 2)
    obs = env.reset([0, 0])
    assert obs["picture"].shape == (2, 2, 3) and obs["place"].tolist() == [0, 0]
    step = env.step((np.array([2, 0]), np.array([[0.5, 0.25], [0, 0]], np.float32)))
    assert step.rewards.tolist() == [2.75, 0] and step.obs["picture"].dtype == np.uint8
    for _ in range(3):
        step = env.step((np.zeros(2, np.int64), np.zeros((2, 2), np.float32)))
    assert step.final_obs[1]["place"] == 4 and step.obs["place"].tolist() == [0, 0]


def test_objects_without_form() -> None:
    env = LoopEnv([WithoutForm] * 2)
    assert env.reset([0, 0]).tolist() == [(0,), (0,)]
    assert env.step(ONES[:2]).obs.tolist() == [(1,), (1,)]


def test_rewards_of_any_number_type() -> None:
    rewards = iter([1, np.float64(2.5), np.array([3.0]), np.array(4), True, np.float32(6)])

    class Paying(Counter):
        def step(self, action: Any) -> Any:
            return self.seen(), next(rewards), False, np.bool_(False), {}

    env = LoopEnv([Paying])
    env.reset([0])
    assert [env.step(ONES[:1]).rewards.tolist() for _ in range(6)] == [[1], [2.5], [3], [4], [1], [6]]


def test_infinite_rewards_are_numbers() -> None:
    class Paying(Counter):
        def step(self, action: Any) -> Any:
            return self.seen(), float("inf"), False, False, {}

    env = LoopEnv([Paying] * 2)
    env.reset([0, 0])
    assert env.step(ONES[:2]).rewards.tolist() == [np.inf, np.inf]


def test_lanes_whose_spaces_have_one_form_go_together() -> None:
    class Wider(Counter):
        observation_space = spaces.Box(-9, 9, (2,), np.float32)  # type: ignore[assignment]

    class Longer(Counter):
        observation_space = spaces.Box(-9, 9, (3,), np.float32)  # type: ignore[assignment]

    class MoreActions(Counter):
        action_space = spaces.Discrete(9)

    assert LoopEnv([Counter, Wider]).observation_space == Counter.observation_space
    with pytest.raises(
        SpaceError, match=r"^Longer: observation_space of lane 1 is Box\(-9.0, 9.0, \(3,\), float32\), and"
    ):
        LoopEnv([Counter, Longer])
    with pytest.raises(SpaceError, match=r"action_space of lane 1 is Discrete\(9\), and that of lane 0 is Disc"):
        LoopEnv([Counter, MoreActions])


def test_spaces_can_be_given() -> None:
    class Bare(Counter):
        observation_space = action_space = None  # type: ignore[assignment]

    with pytest.raises(EnvError, match="^Bare has no observation_space: set it in __init__"):
        LoopEnv([Bare])
    env = LoopEnv([Bare], observation_space=Counter.observation_space, action_space=spaces.Discrete(2))
    assert env.reset([0]).shape == (1, 2)


def test_drawing_and_closing() -> None:
    env = LoopEnv(counters(2))
    env.reset([0, 0])
    env.step(ONES[:2])
    assert env.render(1).tolist() == np.full((2, 2, 3), 1).tolist()
    envs = env.foreach(lambda inner: inner)
    env.close()
    assert all(inner.closed for inner in envs)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda env: env.reset([0]), r"^reset\(\) got 1 seeds for 2 lanes"),
        (lambda env: env.reset([0, -1]), "^reset.. got the seed -1: seeds are whole numbers of at least 0"),
        (lambda env: env.step(ONES[:2]), r"^Counter: step\(\) was called before reset\(\)"),
        (lambda env: (env.reset([0, 0]), env.step(ONES)), r"^Counter: step\(\) got 3 actions for 2 lanes"),
    ],
)
def test_wrong_calls(call: Any, words: str) -> None:
    with pytest.raises(EnvError, match=words):
        call(LoopEnv(counters(2)))


def test_no_lanes() -> None:
    with pytest.raises(EnvError, match="needs one lane at least"):
        LoopEnv([])

"""Samples of whole episodes: none is cut, and those of a lane are the same ones in any company."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.data.fragment import Fragment, joined
from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.envs.registry import env_maker
from kernel_rllib.exploration.exploration import StochasticSampling
from kernel_rllib.modules.actor_critic import ActorCritic, ActorCriticOptions
from kernel_rllib.runners.blueprint import Blueprint, EnvSettings
from kernel_rllib.runners.sampler import Sampler
from kernel_rllib.testing.counting import counting_sampler


class Dice(gymnasium.Env[Any, Any]):
    """Episodes of 1 to `most` steps, drawn anew for each of them; the reward is what was chosen."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(self, env_config: dict[str, Any]) -> None:
        self.most = env_config.get("most", 90)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(1, self.most))
        return np.array([self.left], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        return np.array([self.left], np.float32), float(action), self.left == 0, False, {}


def blueprint(lstm: int | None = None, **env_config: Any) -> Blueprint:
    """Return what makes samplers of whole episodes."""
    distribution = for_space(Dice.action_space)
    module = ActorCritic(1, 3, options=ActorCriticOptions(hidden=(4,), lstm_cells=lstm))
    return Blueprint(
        envs=EnvSettings(env_maker(Dice), env_config),
        observation_space=Dice.observation_space,
        action_space=Dice.action_space,
        module=module,
        exploration=StochasticSampling(distribution),
        complete_episodes=True,
    )


def rows(fragment: Fragment) -> dict[str, list[Any]]:
    """Return the steps of each lane, and its last observation."""
    valid = np.ones(fragment.shape, bool) if fragment.valid is None else fragment.valid
    return {
        f"{name}/{lane}": column[valid[:, place], place].tolist()
        for place, lane in enumerate(fragment.lanes.tolist())
        for name, column in {**fragment.columns, **fragment.state_in}.items()
    }


def rounds(acting: Sampler, count: int, least: int = 5) -> list[Any]:
    """Return the steps and the episodes of some samples."""
    found = []
    for _ in range(count):
        fragment = acting.sample_episodes(least)
        found.append((rows(fragment), sorted(acting.take_episodes())))
    return found


@pytest.mark.parametrize("least", [1, 5, 70])
def test_each_lane_gives_whole_episodes_and_no_more_than_it_has_to(least: int) -> None:
    fragment = counting_sampler(blueprint()).sample_episodes(least)
    assert fragment.valid is not None
    lengths = fragment.valid.sum(axis=0)
    for lane in range(4):
        ends = np.flatnonzero(fragment.columns["terminateds"][: lengths[lane], lane]) + 1
        assert ends[-1] == lengths[lane] >= least
        assert (ends[:-1] < least).all(), "it stops at the first end that suffices"
    assert fragment.steps == lengths.sum() and fragment.shape[0] == lengths.max()
    kept = {tuple(place) for place in fragment.final_at.tolist()}
    assert all((length - 1, lane) in kept for lane, length in enumerate(lengths.tolist()))


@pytest.mark.parametrize("lstm", [None, 3])
@pytest.mark.parametrize("shares", [[(0, 1), (2, 3)], [(0,), (1,), (2,), (3,)], [(0, 1, 2), (3,)]])
def test_lanes_give_the_same_episodes_in_any_company(shares: list[tuple[int, ...]], lstm: int | None) -> None:
    made = blueprint(lstm)
    together = rounds(counting_sampler(made), 3)
    apart = [rounds(counting_sampler(made, lanes), 3) for lanes in shares]
    for number, (steps, episodes) in enumerate(together):
        parts = [part[number] for part in apart]
        assert {key: value for part in parts for key, value in part[0].items()} == steps
        assert sorted(episode for part in parts for episode in part[1]) == episodes


def test_fragments_of_lanes_apart_join_to_that_of_all_together() -> None:
    made = blueprint()
    together = counting_sampler(made).sample_episodes(5)
    apart = joined([counting_sampler(made, lanes).sample_episodes(5) for lanes in ((0, 1), (2, 3))])
    assert rows(apart) == rows(together)
    assert apart.final_at.tolist() == together.final_at.tolist()
    np.testing.assert_array_equal(apart.last_obs, together.last_obs)


def test_each_sample_has_other_episodes_and_goes_on_after_a_state() -> None:
    made = blueprint()
    first = counting_sampler(made)
    begun = rounds(first, 2)
    assert begun[0][0] != begun[1][0]
    second = counting_sampler(made)
    second.set_state(first.state())
    assert rounds(second, 2) == rounds(first, 2)


def test_episodes_that_were_left_out_are_not_counted() -> None:
    acting = counting_sampler(blueprint(most=4))
    fragment = acting.sample_episodes(1)
    episodes = acting.take_episodes()
    assert len(episodes) == 4
    assert sum(episode.length for episode in episodes) == fragment.steps
    again = acting.sample_episodes(1)
    assert sum(episode.length for episode in acting.take_episodes()) == again.steps

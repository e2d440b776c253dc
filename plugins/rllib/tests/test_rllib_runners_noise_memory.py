"""What an exploration remembers of lanes: cleared with episodes, in snapshots, the same however lanes are shared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.data.fragment import Fragment, followed_by, joined
from kernel_rllib.distributions.deterministic import Deterministic
from kernel_rllib.envs.registry import env_maker
from kernel_rllib.exploration.action_noise import OrnsteinUhlenbeckNoise
from kernel_rllib.modules.actor_q_critics import ActorQCritics, ActorQCriticsOptions, HiddenLayers
from kernel_rllib.runners.blueprint import Blueprint, EnvSettings
from kernel_rllib.runners.place import RunnerPlace
from kernel_rllib.runners.sampler import Sampler
from kernel_rllib.testing.counting import Counting

BOUNDS = (np.full(1, -1, np.float32), np.full(1, 1, np.float32))
ACTION_SPACE = spaces.Box(-3.0, 5.0, (1,))


class Pushed(Counting):
    """Counts its steps, and takes a number."""

    def __init__(self, env_config: dict[str, Any]) -> None:
        super().__init__(env_config)
        self.action_space = ACTION_SPACE


def blueprint(length: int = 4) -> Blueprint:
    """Return the blueprint of lanes whose policy says 0, with noise that drifts."""
    small = HiddenLayers((4,))
    module = ActorQCritics(2, 1, action_inputs=1, options=ActorQCriticsOptions(small, small, 1, None))
    drift = OrnsteinUhlenbeckNoise(
        Deterministic(1), BOUNDS, theta=0.1, sigma=0.1, base_scale=0.5, scale=lambda timestep: 1.0
    )
    return Blueprint(
        envs=EnvSettings(env_maker(Pushed), {"length": length}, kind="loop"),
        observation_space=Pushed({}).observation_space,
        action_space=ACTION_SPACE,
        module=module,
        exploration=drift,
        seed=2,
    )


def sampler(lanes: tuple[int, ...] = (0, 1, 2), length: int = 4) -> Sampler:
    """Return a sampler of these lanes; its parameters are zeros, so that actions are the noise alone."""
    return blueprint(length)(RunnerPlace(0, lanes, 1, 3))


def actions(fragment: Fragment) -> np.ndarray:
    """Return the actions [T, L] of a fragment."""
    return fragment.columns["actions"][..., 0]


def test_noise_drifts_within_an_episode_and_begins_anew_with_the_next() -> None:
    made = actions(sampler(length=100).sample(60))
    steps = np.diff(made, axis=0)
    assert np.abs(made).max() > 3 * np.abs(steps).std()  # it goes farther than it moves at a time
    first = actions(sampler(length=1).sample(60))
    drawn = first - 0.0
    later = actions(sampler(length=100).sample(60))
    np.testing.assert_array_equal(drawn[0], later[0])
    np.testing.assert_allclose(first[1:], later[1:] - 0.9 * later[:-1], atol=1e-6)


@pytest.mark.parametrize("shares", [[(0, 1), (2,)], [(0,), (1,), (2,)]])
def test_lanes_have_the_same_noise_in_any_company(shares: list[tuple[int, ...]]) -> None:
    together = sampler().sample(11)
    apart = joined([sampler(lanes).sample(11) for lanes in shares])
    np.testing.assert_array_equal(actions(apart), actions(together))


def test_noise_is_the_same_however_steps_are_cut() -> None:
    acting = sampler()
    pieces = [acting.sample(steps) for steps in (2, 1, 6)]
    np.testing.assert_array_equal(
        actions(followed_by(followed_by(pieces[0], pieces[1]), pieces[2])), actions(sampler().sample(9))
    )


def test_snapshots_take_it_along() -> None:
    acting = sampler(length=50)
    acting.sample(7)
    state = acting.state()
    assert state["lanes"]["1"]["noise"]["drift"].shape == (1,)
    expected = actions(acting.sample(5))
    other: Any = sampler((1, 2), length=50)
    other.sample(3)
    other.set_state(state)
    np.testing.assert_array_equal(actions(other.sample(5)), expected[:, 1:])


def test_another_round_begins_without_it() -> None:
    acting = sampler(length=50)
    acting.sample(9)
    acting.begin(1)
    assert all(not value["noise"]["drift"].any() for value in acting.state()["lanes"].values())


def test_environments_get_what_was_chosen_stretched_to_their_bounds() -> None:
    acting = sampler()
    seen: list[np.ndarray] = []
    envs: Any = acting._envs
    step = envs.step
    envs.step = lambda given: (seen.append(np.array(given)), step(given))[1]
    chosen = actions(acting.sample(6))
    np.testing.assert_allclose(np.stack(seen)[..., 0], 1.0 + 4.0 * chosen, rtol=1e-5)
    assert np.abs(chosen).max() <= 1

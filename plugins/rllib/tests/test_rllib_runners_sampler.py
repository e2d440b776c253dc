"""The sampler: what it writes down of each step, and the same numbers however lanes are shared and steps are cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernel_rllib.data.fragment import Fragment, followed_by, joined
from kernel_rllib.exploration.epsilon_greedy import EpsilonGreedy
from kernel_rllib.exploration.exploration import NoExploration
from kernel_rllib.modules.q_network import QNetwork, QNetworkOptions
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.nn.schedules import ConstantSchedule
from kernel_rllib.runners.blueprint import Blueprint
from kernel_rllib.testing.counting import counting_blueprint as blueprint
from kernel_rllib.testing.counting import counting_sampler as sampler


def assert_same(one: Fragment, other: Fragment) -> None:
    """Fail unless two fragments are equal in every bit."""
    assert one.columns.keys() == other.columns.keys()
    for name, column in one.columns.items():
        np.testing.assert_array_equal(column, other.columns[name], err_msg=name)
    for name in ("last_obs", "final_at", "final_obs", "lanes"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name, column in one.state_in.items():
        np.testing.assert_array_equal(column, other.state_in[name], err_msg=name)


@pytest.mark.parametrize("cut", [False, True])
def test_each_step_is_written_down_with_the_end_of_its_episode(cut: bool) -> None:
    made = sampler(blueprint({"length": 3, "cut": cut}), (0, 1)).sample(7)
    assert made.shape == (7, 2)
    assert made.columns["obs"][:, 0, 0].tolist() == [0, 1, 2, 0, 1, 2, 0]
    ends = np.array([False, False, True, False, False, True, False])
    np.testing.assert_array_equal(made.columns["truncateds" if cut else "terminateds"][:, 0], ends)
    assert not made.columns["terminateds" if cut else "truncateds"].any()
    assert made.final_at.tolist() == [[2, 0], [2, 1], [5, 0], [5, 1]]
    assert made.final_obs[:, 0].tolist() == [3, 3, 3, 3]
    assert made.next_obs()[:, 0, 0].tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert made.last_obs[:, 0].tolist() == [1, 1]
    assert (made.columns["rewards"] == 1).all()
    assert made.weights_version == 7


def test_actions_have_the_probability_with_which_they_were_drawn() -> None:
    made = sampler(blueprint()).sample(5)
    logits = made.columns["action_dist_inputs"].reshape(20, 3)
    expected = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    actions = made.columns["actions"].reshape(20)
    np.testing.assert_allclose(made.columns["action_logp"].reshape(20), expected[np.arange(20), actions], rtol=1e-5)
    assert set(actions.tolist()) == {0, 1, 2}


def test_lanes_have_episodes_of_their_own() -> None:
    marks = sampler(blueprint()).sample(1).columns["obs"][0, :, 1]
    assert len(set(marks.tolist())) == 4


@pytest.mark.parametrize("lstm", [None, 5])
@pytest.mark.parametrize("shares", [[(0, 1), (2, 3)], [(0,), (1,), (2,), (3,)], [(0, 1, 2), (3,)]])
def test_lanes_give_the_same_bits_in_any_company(shares: list[tuple[int, ...]], lstm: int | None) -> None:
    made = blueprint(lstm=lstm)
    together = sampler(made).sample(9)
    apart = [sampler(made, lanes).sample(9) for lanes in shares]
    assert_same(joined(apart), together)


@pytest.mark.parametrize("lstm", [None, 5])
def test_steps_give_the_same_bits_however_they_are_cut(lstm: int | None) -> None:
    made = blueprint(lstm=lstm)
    whole = sampler(made).sample(9)
    acting = sampler(made)
    pieces = [acting.sample(steps) for steps in (2, 1, 6)]
    assert_same(followed_by(followed_by(pieces[0], pieces[1]), pieces[2]), whole)


@pytest.mark.parametrize("lstm", [None, 5])
def test_a_sampler_goes_on_elsewhere_bit_for_bit(lstm: int | None) -> None:
    made = blueprint(lstm=lstm)
    acting = sampler(made)
    acting.sample(3)
    acting.take_episodes()
    state = acting.state()
    expected, episodes = acting.sample(6), acting.take_episodes()
    other = sampler(made)
    other.sample(5)
    other.take_episodes()
    other.set_state(state)
    assert_same(other.sample(6), expected)
    assert other.take_episodes() == episodes
    assert episodes[0].length == 4


def noisy_blueprint() -> Blueprint:
    """Return what makes samplers whose network is noisy, and which explore by it and now and then at random."""
    module = QNetwork(2, 3, QNetworkOptions(hidden=(8,), noisy=True, sigma=2.0))
    return replace(blueprint(), module=module, exploration=EpsilonGreedy(ConstantSchedule(0.1)))


def test_noise_of_networks_is_the_lanes_own_in_any_company_and_however_steps_are_cut() -> None:
    made = noisy_blueprint()
    whole = sampler(made).sample(600)
    cut = sampler(made)
    pieces = [cut.sample(steps) for steps in (1, 254, 2, 343)]
    together = pieces[0]
    for piece in pieces[1:]:
        together = followed_by(together, piece)
    assert_same(together, whole)
    assert_same(joined([sampler(made, lanes).sample(600) for lanes in ((0,), (1, 2, 3))]), whole)
    actions = whole.columns["actions"]
    assert (actions[:, :1] != actions[:, 1:]).mean() > 0.1, "lanes have noise of their own"


def test_a_sampler_with_noise_goes_on_elsewhere() -> None:
    made = noisy_blueprint()
    acting = sampler(made)
    acting.sample(300)
    state = acting.state()
    other = sampler(made)
    other.sample(3)
    other.set_state(state)
    assert_same(other.sample(40), acting.sample(40))


def test_a_sampler_that_does_not_explore_has_no_noise() -> None:
    made = noisy_blueprint()
    quiet = sampler(replace(made, exploration=NoExploration(made.exploration)), (0,)).sample(50)
    values = made.module.infer(
        NumpyOps(),
        made.module.table.views(made.module.initial(np.random.default_rng(1))),
        {"obs": quiet.columns["obs"][:, 0]},
    )
    np.testing.assert_array_equal(quiet.columns["actions"][:, 0], values["q_values"].argmax(1))


def test_what_is_remembered_is_cleared_with_each_episode() -> None:
    made = sampler(blueprint({"length": 3}, lstm=5)).sample(7)
    assert made.columns["resets"][:, 0].tolist() == [True, False, False, True, False, False, True]
    hidden = made.state_in["memory_hidden"]
    assert (hidden[[0, 3, 6]] == 0).all() and (hidden[[1, 2, 4, 5]] != 0).any(axis=-1).all()


def test_each_episode_begins_with_what_a_module_remembers_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    acting = blueprint({"length": 3}, lstm=5)
    first = {name: np.full(shape, 0.5, np.float32) for name, shape in acting.module.state().items()}
    monkeypatch.setattr(acting.module, "initial_state", lambda: first)
    begins = sampler(acting).sample(7)
    begins_with_half = (begins.state_in["memory_cell"] == 0.5).all(axis=-1)
    np.testing.assert_array_equal(begins_with_half, begins.columns["resets"])


def test_a_lane_whose_environment_fails_begins_anew_and_counts_no_episode() -> None:
    acting = sampler(blueprint({"length": 3, "fails_at": 5}, restart=True), (0,))
    made = acting.sample(9)
    assert made.valid is not None
    assert np.flatnonzero(~made.valid[:, 0]).tolist() == [4]
    assert made.columns["truncateds"][:, 0].tolist()[4] is True
    assert made.columns["obs"][:, 0, 0].tolist() == [0, 1, 2, 0, 1, 0, 1, 2, 0]
    assert made.steps == 8 and made.batch().count == 8
    assert [episode.length for episode in acting.take_episodes()] == [3, 3]


def test_a_failure_without_leave_to_begin_anew_says_which_environment() -> None:
    from kernel_rllib.errors import EnvError

    with pytest.raises(EnvError, match="Counting"):
        sampler(blueprint({"fails_at": 2}), (0,)).sample(3)


def test_explorations_count_the_steps_of_all_lanes() -> None:
    seen: list[int] = []

    class Watching:
        """Notes what it is told."""

        keeps: tuple[str, ...] = ()

        def __init__(self, noise: Any) -> None:
            self.noise = noise

        def choose(self, nn: Any, outputs: Any, noise: np.ndarray, timestep: int) -> np.ndarray:
            """Choose nothing."""
            seen.append(timestep)
            return np.zeros(len(noise), np.int64)

        def recorded(self, nn: Any, chosen: Any) -> dict[str, Any]:
            """Record nothing."""
            return {}

    acting = sampler(blueprint(), (0, 1), steps_before=10)
    acting.exploration = Watching(acting.exploration.noise)  # type: ignore[assignment]
    acting.sample(2)
    acting.sample(1)
    assert seen == [40, 44, 48]


def test_a_round_of_evaluation_begins_with_the_same_episodes_each_time() -> None:
    acting = sampler(blueprint())
    first = acting.sample(1).columns["obs"][0]
    acting.begin(5)
    other = acting.sample(1).columns["obs"][0]
    acting.begin(5)
    np.testing.assert_array_equal(acting.sample(1).columns["obs"][0], other)
    assert not np.array_equal(first, other)


def test_after_an_error_in_a_step_it_is_as_if_the_sample_had_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    made = blueprint({"length": 3})
    acting, expected = sampler(made, (0, 1)), sampler(made, (0, 1))
    for each in (acting, expected):
        each.collect(2)
    step = iter([acting.envs.step, None])  # the second step of the sample fails, after episodes have ended
    monkeypatch.setattr(acting.envs, "step", lambda actions: next(step)(actions))
    with pytest.raises(TypeError):
        acting.collect(5)
    monkeypatch.undo()
    expected._begin([(0, 2)] * 2)
    found = acting.collect(4).fragments["default_policy"]
    assert found.columns["obs"][:, :, 0].tolist() == [[0, 0], [1, 1], [2, 2], [0, 0]]
    assert_same(found, expected.collect(4).fragments["default_policy"])
    assert acting.take_episodes() == expected.take_episodes()

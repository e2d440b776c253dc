"""Agents in lanes: turns, agents that come and go, rewards between turns, ends, errors, and the same bits anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.data.fragment import Fragment, joined
from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.envs.multi_agent import ALL, MultiAgentEnv
from kernel_rllib.envs.registry import env_maker
from kernel_rllib.errors import EnvError, UnknownPolicyError
from kernel_rllib.exploration.exploration import StochasticSampling
from kernel_rllib.modules.actor_critic import ActorCritic, ActorCriticOptions
from kernel_rllib.runners.agent_slots import SLOTS
from kernel_rllib.runners.blueprint import EnvSettings
from kernel_rllib.runners.multi_agent_blueprint import MultiAgentBlueprint
from kernel_rllib.runners.multi_agent_sampler import MultiAgentSampler
from kernel_rllib.runners.place import RunnerPlace
from kernel_rllib.runners.policy_blueprint import PolicyBlueprint

SEEN = spaces.Box(-100.0, 100.0, (1,), np.float32)
Story = list[tuple[dict[Any, float], dict[Any, float], dict[Any, bool], dict[Any, bool]]]

TURNS: Story = [
    ({"a": 1}, {"a": 1.0, "b": 10.0}, {ALL: False}, {ALL: False}),  # b, who has not acted, is rewarded
    ({"b": 2}, {"a": 2.0}, {ALL: False}, {ALL: False}),
    ({"a": 3}, {"a": 4.0}, {ALL: False}, {ALL: False}),
    ({"b": 4}, {"b": 20.0}, {ALL: False}, {ALL: False}),
    ({"a": 5, "b": 6}, {"a": 8.0, "b": 40.0}, {ALL: True}, {ALL: False}),
]
"""By turns: a acts on the first observation, 0, and on 1; b on 2; a on 3; b on 4. They end with 5 and 6."""

LEAVING: Story = [
    ({"a": 1, "b": 11}, {"a": 1.0}, {ALL: False}, {ALL: False}),
    ({"b": 12, "c": 21, "a": 2}, {"b": 1.0}, {"a": True, ALL: False}, {ALL: False}),
    ({"b": 13, "c": 22}, {"a": 100.0}, {ALL: False}, {"c": True, ALL: False}),
    ({"b": 14}, {}, {ALL: False}, {ALL: True}),
]
"""a ends with 2, c comes and is cut off, the rest is cut off."""


class Told(MultiAgentEnv):
    """Tells a story, again and again, whoever acts how."""

    observation_space = SEEN
    action_space = spaces.Discrete(2)

    def __init__(self, env_config: Mapping[str, Any] | None = None) -> None:
        config = env_config or {}
        self.story: Story = config["story"]
        self.first: dict[Any, float] = config.get("first", {"a": 0})
        self.told = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[Any, Any], dict[Any, Any]]:
        self.told = 0
        return self._seen(self.first), {}

    def step(self, action_dict: Mapping[Any, Any]) -> Any:
        obs, rewards, terminateds, truncateds = self.story[self.told]
        self.told += 1
        return self._seen(obs), rewards, terminateds, truncateds, {}

    def _seen(self, values: dict[Any, float]) -> dict[Any, Any]:
        return {agent: np.array([value], np.float32) for agent, value in values.items()}


def policy(space: Any = SEEN, lstm: int | None = None) -> PolicyBlueprint:
    """Return what makes a small policy act."""
    distribution = for_space(spaces.Discrete(2))
    module = ActorCritic(1, 2, options=ActorCriticOptions(hidden=(4,), lstm_cells=lstm))
    return PolicyBlueprint(
        observation_space=space,
        action_space=spaces.Discrete(2),
        module=module,
        exploration=StochasticSampling(distribution),
    )


def blueprint(story: Story, first: Any = None, *, lstm: int | None = None, **changes: Any) -> MultiAgentBlueprint:
    """Return what makes samplers of a story, in which the agent "b" has a policy of its own."""
    config = {"story": story, "first": first or {"a": 0}}
    given = {
        "policies": {"main": policy(lstm=lstm), "other": policy(lstm=lstm)},
        "policy_of": lambda agent, episode, worker: "other" if agent == "b" else "main",
        **changes,
    }
    return MultiAgentBlueprint(envs=EnvSettings(env_maker(Told), config), **given)


def sampler(made: MultiAgentBlueprint, copies: tuple[int, ...] = (0,)) -> MultiAgentSampler:
    """Return a sampler of some copies of four, with parameters."""
    acting = made(RunnerPlace(0, copies, 0, 4))
    modules = [made.policies[name].module for name in made.policies]  # type: ignore[union-attr]
    vector = np.concatenate([module.initial(np.random.default_rng(1)) for module in modules])
    acting.set_weights(vector, 3)
    return acting


def column(fragment: Fragment, name: str) -> list[list[float]]:
    """Return the entries of a column, lane by lane, without those that only fill up."""
    valid = np.ones(fragment.shape, bool) if fragment.valid is None else fragment.valid
    whole = fragment.columns[name].reshape(*fragment.shape, -1)[:, :, 0]
    return [whole[valid[:, lane], lane].tolist() for lane in range(fragment.shape[1])]


def test_a_step_lasts_until_the_agent_sees_again_and_has_all_rewards_of_meanwhile() -> None:
    made = sampler(blueprint(TURNS)).sample(5)
    main, other = made["main"], made["other"]
    assert column(main, "obs") == [[0.0, 1.0, 3.0]]
    assert column(main, "rewards") == [[1.0, 6.0, 8.0]]  # 2 came while b was to act, 4 with what it saw next
    assert column(main, "terminateds") == [[False, False, True]]
    assert column(other, "obs") == [[2.0, 4.0]]
    assert column(other, "rewards") == [[30.0, 40.0]]  # 10 had come before it first acted
    assert (main.final_obs.tolist(), other.final_obs.tolist()) == ([[5.0]], [[6.0]])
    assert main.next_obs()[:, 0, 0].tolist() == [1.0, 3.0, 5.0]
    assert main.weights_version == 3
    assert main.columns["action_logp"].shape == (3, 1)


def test_a_step_that_is_not_over_is_in_the_next_fragment() -> None:
    acting = sampler(blueprint(TURNS))
    first, second = acting.sample(2), acting.sample(3)
    assert column(first["main"], "obs") == [[0.0]]
    assert first["main"].last_obs.tolist() == [[1.0]]
    assert "other" not in first  # b has seen something and not acted
    assert column(second["main"], "obs") == [[1.0, 3.0]]
    assert column(second["main"], "rewards") == [[6.0, 8.0]]
    assert column(second["other"], "rewards") == [[30.0, 40.0]]


def test_agents_leave_and_others_take_their_lanes() -> None:
    made = sampler(blueprint(LEAVING, {"a": 0, "b": 10})).sample(4)
    main, other = made["main"], made["other"]
    # c appears when a ends, and gets its lane. What a is given after its end is in the episode only.
    assert main.lanes.tolist() == [0]
    found = {name: [*chain(*column(main, name))] for name in ("obs", "terminateds", "truncateds")}
    assert found["obs"] == [0.0, 1.0, 21.0]
    assert found["terminateds"] == [False, True, False]
    assert found["truncateds"] == [False, False, True]
    assert sorted(main.final_obs[:, 0].tolist()) == [2.0, 22.0]
    assert column(other, "obs") == [[10.0, 11.0, 12.0, 13.0]]
    assert column(other, "truncateds") == [[False, False, False, True]]


def test_episodes_say_what_each_agent_earned() -> None:
    acting = sampler(blueprint(LEAVING, {"a": 0, "b": 10}))
    acting.sample(8)
    first, second = acting.take_episodes()
    assert (first.total_reward, first.length, first.ended_at) == (102.0, 4, 4)
    assert set(first.agents) == {("a", "main", 101.0), ("b", "other", 1.0), ("c", "main", 0.0)}
    assert (second.ended_at, second.agents) == (8, first.agents)


def test_a_policy_is_asked_for_once_in_an_episode() -> None:
    asked: list[tuple[Any, int]] = []

    def policy_of(agent: Any, episode: Any, worker: Any) -> str:
        asked.append((agent, episode.episode_id))
        return ("main", "other")[episode.episode_id % 2]

    made = sampler(blueprint(TURNS, policy_of=policy_of)).sample(10)
    assert asked == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2)]
    assert made["main"].steps == made["other"].steps == 5


@pytest.mark.parametrize("lstm", [None, 3])
@pytest.mark.parametrize("story", ["turns", "leaving"])
@pytest.mark.parametrize("whole", [False, True])
def test_copies_give_the_same_steps_whichever_runner_has_them(story: str, lstm: int | None, whole: bool) -> None:
    told, first = (TURNS, {"a": 0}) if story == "turns" else (LEAVING, {"a": 0, "b": 10})
    made = blueprint(told, first, lstm=lstm, complete_episodes=whole)
    alone = sampler(made, (0, 1, 2, 3))
    parts = [sampler(made, (0,)), sampler(made, (1, 2, 3))]
    for steps in (3, 4):
        expected = alone.collect(steps)
        found = [part.collect(steps) for part in parts]
        assert sum(part.env_steps for part in found) == expected.env_steps
        assert sum(part.agent_steps for part in found) == expected.agent_steps
        for module_id, fragment in expected.fragments.items():
            together = joined([part.fragments[module_id] for part in found])
            assert together.lanes.tolist() == fragment.lanes.tolist()
            assert (together.valid is None) == (fragment.valid is None)
            np.testing.assert_array_equal(together.final_obs, fragment.final_obs)
            np.testing.assert_array_equal(together.last_obs, fragment.last_obs)
            for name, values in {**fragment.columns, **fragment.state_in}.items():
                other = {**together.columns, **together.state_in}[name]
                assert other.tobytes() == values.tobytes(), name


def test_each_episode_begins_with_what_a_module_remembers_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    made = blueprint(TURNS, lstm=3)
    for acting in made.policies.values():
        assert isinstance(acting, PolicyBlueprint)
        first = {name: np.full(shape, 0.5, np.float32) for name, shape in acting.module.state().items()}
        monkeypatch.setattr(acting.module, "initial_state", lambda first=first: first)
    for fragment in sampler(made).sample(10).values():
        begins = (fragment.state_in["memory_cell"] == 0.5).all(axis=-1)
        np.testing.assert_array_equal(begins, fragment.columns["resets"])
        assert begins.any() and not begins.all()


@pytest.mark.parametrize("lstm", [None, 3])
@pytest.mark.parametrize("before", [1, 2, 3, 6])
def test_copies_go_on_elsewhere_with_the_same_bits(before: int, lstm: int | None) -> None:
    made = blueprint(TURNS, lstm=lstm)
    acting, later = sampler(made, (0, 1)), sampler(made, (0, 1))
    acting.sample(before)
    later.set_state(acting.state())
    expected, found = acting.sample(7), later.sample(7)
    assert acting.take_episodes()[-1] == later.take_episodes()[-1]
    for module_id, fragment in expected.items():
        for name, values in fragment.columns.items():
            assert found[module_id].columns[name].tobytes() == values.tobytes(), name


def test_policies_draw_different_noise_and_copies_too() -> None:
    both: Story = [({"a": 0, "b": 0}, {}, {ALL: False}, {ALL: False})] * 40
    made = sampler(blueprint(both, {"a": 0, "b": 0}), (0, 1)).sample(38)
    actions = {tuple(made[name].columns["actions"][:, lane]) for name in made for lane in (0, 1)}
    assert len(actions) == 4


def test_whole_episodes_are_sampled_where_that_is_wanted() -> None:
    acting = sampler(blueprint(TURNS, complete_episodes=True), (0, 1))
    collected = acting.collect(6)
    assert (collected.env_steps, collected.agent_steps) == (20, 20)
    assert [episode.ended_at for episode in acting.take_episodes()] == [5, 5, 10, 10]
    assert collected.fragments["main"].columns["terminateds"][-1].all()


class Failing(Told):
    """Fails in its second step, once."""

    failed = False

    def step(self, action_dict: Mapping[Any, Any]) -> Any:
        if self.told == 1 and not Failing.failed:
            Failing.failed = True
            raise RuntimeError("gone")
        return super().step(action_dict)


def test_a_copy_that_fails_begins_anew_and_its_step_is_void() -> None:
    Failing.failed = False
    settings = EnvSettings(env_maker(Failing), {"story": TURNS, "first": {"a": 0}}, restart_failed=True)
    base = blueprint(TURNS)
    made = MultiAgentBlueprint(envs=settings, policies=base.policies, policy_of=base.policy_of)
    fragment = sampler(made).sample(4)["main"]
    assert fragment.valid is not None
    assert fragment.valid[:, 0].tolist() == [True, False, True]
    assert fragment.columns["truncateds"][:, 0].tolist() == [False, True, False]
    assert fragment.next_obs()[0, 0, 0] == 1.0


BACK: Story = [
    ({"a": 1, "b": 1}, {}, {"b": True, ALL: False}, {ALL: False}),
    ({"a": 1, "b": 1}, {}, {ALL: False}, {ALL: False}),
]
NOBODY: Story = [({"a": 1}, {}, {"a": True, ALL: False}, {ALL: False})]


def test_an_agent_that_comes_back_is_an_error() -> None:
    with pytest.raises(EnvError, match=r"Told\.step\(\) returned an observation for agent 'b', which ended in an"):
        sampler(blueprint(BACK, {"a": 0, "b": 0})).sample(2)


def test_nobody_left_without_all_is_an_error() -> None:
    with pytest.raises(EnvError, match=r"Told\.step\(\) ended the last agent of the episode after 1 steps, and said"):
        sampler(blueprint(NOBODY)).sample(1)


def test_a_policy_that_there_is_not_is_an_error_with_the_nearest() -> None:
    message = r"returned 'mian' for agent 'a', and there is no policy of that id; did you mean 'main'\?"
    with pytest.raises(UnknownPolicyError, match=message):
        sampler(blueprint(TURNS, policy_of=lambda agent, episode, worker: "mian"))


def test_an_agent_of_other_spaces_than_its_policy_is_an_error() -> None:
    wrong = {"main": policy(spaces.Box(-1.0, 1.0, (2,), np.float32)), "other": policy()}
    with pytest.raises(EnvError, match=r"Told\.reset\(\) returned an observation for agent 'a', whose observation_sp"):
        sampler(blueprint(TURNS, policies=wrong))


class Spaced(Told):
    """Has spaces of the agent "a" only."""

    observation_space = None
    action_space = None
    observation_spaces: ClassVar[Any] = {"a": SEEN}
    action_spaces: ClassVar[Any] = {"a": spaces.Discrete(2)}


def test_an_agent_without_spaces_is_an_error() -> None:
    base = blueprint(TURNS)
    settings = EnvSettings(env_maker(Spaced), {"story": TURNS, "first": {"a": 0}})
    acting = sampler(MultiAgentBlueprint(envs=settings, policies=base.policies, policy_of=base.policy_of))
    with pytest.raises(EnvError, match=r"Spaced\.step\(\) failed .* Spaced has no observation_space for agent 'b'"):
        acting.sample(2)


def test_lanes_are_numbered_by_copy_and_slot() -> None:
    assert sampler(blueprint(TURNS), (2, 3)).sample(5)["main"].lanes.tolist() == [2 * SLOTS, 3 * SLOTS]

"""Several policies: how users write them, what they are in full, and which agents they act for."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import pytest
from gymnasium.spaces import Box, Discrete
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.config import DEFAULT_POLICY_ID, AlgorithmConfig, PolicySpec, building
from kernel_rllib.config.policy_spec import bound_mapping, default_policy_mapping
from kernel_rllib.errors import ConfigError

SMALL, LARGE = Discrete(2), Discrete(9)
OBSERVATION = Box(-1.0, 1.0, (3,))


class SomePolicy:
    """A class of policies, as older generations have them."""


class Alike(gymnasium.Env[Any, Any]):
    """An environment of one kind of agents."""

    observation_space, action_space = OBSERVATION, SMALL


class Different:
    """An environment whose agents see and do different things, as RLlib has them."""

    possible_agents = ("a1", "a2", "b1")

    def get_observation_space(self, agent: str) -> Any:
        return OBSERVATION

    def get_action_space(self, agent: str) -> Any:
        return LARGE if agent.startswith("b") else SMALL


class Dicts:
    """The same, with its spaces in dicts."""

    agents = ("a1", "b1")
    observation_spaces = {"a1": OBSERVATION, "b1": SMALL}
    action_spaces = {"a1": SMALL, "b1": LARGE}


class Older:
    """The same, as 2.x had it: ids by a method, one space for all."""

    observation_space, action_space = OBSERVATION, SMALL

    def get_agent_ids(self) -> set[int]:
        return {1, 2}


class Methods:
    """The same, as PettingZoo has it: spaces by methods of these names."""

    possible_agents = ("a1",)
    observation_spaces = {"a1": OBSERVATION}
    action_spaces = {"a1": SMALL}

    def observation_space(self, agent: str) -> Any:
        return OBSERVATION

    def action_space(self, agent: str) -> Any:
        return SMALL


class Vector:
    """An environment that steps several copies at once."""

    single_observation_space, single_action_space = OBSERVATION, SMALL
    observation_space, action_space = Box(-1.0, 1.0, (8, 3)), LARGE


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (["a", "b"], {"a": PolicySpec(), "b": PolicySpec()}),
        (("a",), {"a": PolicySpec()}),
        ({"b", "a"}, {"a": PolicySpec(), "b": PolicySpec()}),
        (
            {"a": (None, OBSERVATION, SMALL, {"gamma": 0.8})},
            {"a": PolicySpec(None, OBSERVATION, SMALL, {"gamma": 0.8})},
        ),
        ({"a": [SomePolicy, None, None, None]}, {"a": PolicySpec(SomePolicy)}),
        ({"a": PolicySpec(config={})}, {"a": PolicySpec(config={})}),
        ({"a": None}, {"a": PolicySpec()}),
        ({}, {DEFAULT_POLICY_ID: PolicySpec()}),
        (None, {DEFAULT_POLICY_ID: PolicySpec()}),
    ],
)
def test_policies_are_a_dict_of_specs_however_they_are_written(written: Any, kept: dict[str, Any]) -> None:
    config = AlgorithmConfig().multi_agent(policies=written)
    assert config.policies == kept and list(config.policies) == list(kept)
    assert AlgorithmConfig.from_dict({"multiagent": {"policies": written}}) == config
    assert config.to_dict()["policies"] == {policy: tuple(spec) for policy, spec in kept.items()}


@pytest.mark.parametrize(
    ("env", "spaces"),
    [
        (Alike(), {"a": (OBSERVATION, SMALL), "b": (OBSERVATION, SMALL)}),
        (Different(), {"a": (OBSERVATION, SMALL), "b": (OBSERVATION, LARGE)}),
        (Dicts(), {"a": (OBSERVATION, SMALL), "b": (SMALL, LARGE)}),
        (Older(), {"a": (OBSERVATION, SMALL), "b": (OBSERVATION, SMALL)}),
        (Methods(), {"a": (OBSERVATION, SMALL), "b": (OBSERVATION, SMALL)}),
        (Vector(), {"a": (OBSERVATION, SMALL), "b": (OBSERVATION, SMALL)}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_spaces_come_from_the_environment(env: Any, spaces: dict[str, Any]) -> None:
    config = PPOConfig().multi_agent(
        policies={"a", "b"}, policy_mapping_fn=lambda agent: str(agent)[0], policies_to_train=["a"]
    )
    policies, learns = config.get_multi_agent_setup(env=env, default_policy_class=SomePolicy)
    assert {policy: (spec.observation_space, spec.action_space) for policy, spec in policies.items()} == spaces
    assert all(spec.policy_class is SomePolicy and spec.config == {} for spec in policies.values())
    assert learns("a") and not learns("b") and learns("a", {"a": "batch"})
    assert config.policies == {"a": PolicySpec(), "b": PolicySpec()}


def test_spaces_come_from_whoever_says_them_first() -> None:
    other = Discrete(5)
    config = AlgorithmConfig().environment(observation_space=other, action_space=other).multi_agent(policies=["a"])
    both = lambda **more: config.get_multi_agent_setup(**more)[0]["a"]
    assert (both().observation_space, both().action_space) == (other, other)
    assert both(env=Alike()).action_space == SMALL
    assert both(spaces={"__env__": (OBSERVATION, LARGE)}).action_space == LARGE
    assert both(env=Alike(), spaces={"a": (OBSERVATION, LARGE)}).action_space == LARGE
    assert both(env=Alike(), policies={"a": (SomePolicy, None, LARGE, {"gamma": 1})}) == PolicySpec(
        SomePolicy, OBSERVATION, LARGE, {"gamma": 1}
    )


def test_the_environment_is_made_where_it_takes_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_env_maker", None)
    policies, learns = PPOConfig().environment("CartPole-v1").multi_agent(policies={"pol1"}).get_multi_agent_setup()
    assert policies["pol1"].action_space == Discrete(2) and policies["pol1"].observation_space.shape == (4,)
    assert learns("pol1") and learns("any")
    made: list[Any] = []
    by_class = PPOConfig().environment(lambda given: made.append(given) or Alike(), env_config={"a": 1})
    assert by_class.get_multi_agent_setup()[0][DEFAULT_POLICY_ID].action_space == SMALL
    assert made == [{"a": 1}]
    building.set_env_maker(lambda config: Alike())
    assert PPOConfig().environment("Mine").get_multi_agent_setup()[0][DEFAULT_POLICY_ID].action_space == SMALL
    monkeypatch.setattr(building, "_env_maker", None)
    said = PPOConfig().environment("?", observation_space=OBSERVATION, action_space=LARGE)
    assert said.get_multi_agent_setup()[0][DEFAULT_POLICY_ID].action_space == LARGE
    spec = (None, OBSERVATION, LARGE, None)
    assert PPOConfig().environment("?").multi_agent(policies={"a": spec}).get_multi_agent_setup()[0]["a"].config == {}


def test_the_class_of_policies_may_be_that_of_the_algorithm() -> None:
    class Algorithm:
        @classmethod
        def get_default_policy_class(cls, config: Any) -> Any:
            return (SomePolicy, config.gamma)

    policies, _ = PPOConfig(Algorithm).get_multi_agent_setup(env=Alike())
    assert policies[DEFAULT_POLICY_ID].policy_class == (SomePolicy, 0.99)


def test_without_spaces_there_is_no_policy() -> None:
    with pytest.raises(ConfigError) as raised:
        PPOConfig().get_multi_agent_setup()
    assert isinstance(raised.value, ValueError)
    assert str(raised.value) == (
        "PPOConfig: nothing says what the observation_space of the policy 'default_policy' is; name it in its "
        "PolicySpec or by environment(observation_space=...), or give an environment that has one"
    )
    with pytest.raises(ConfigError, match="the action_space of the policy 'default_policy' is"):
        PPOConfig().environment(observation_space=SMALL).get_multi_agent_setup()


def test_agents_of_different_spaces_have_no_policy_in_common() -> None:
    config = PPOConfig().multi_agent(policies=["one"], policy_mapping_fn=lambda agent, episode, worker, **more: "one")
    with pytest.raises(ValueError) as raised:
        config.get_multi_agent_setup(env=Different())
    assert str(raised.value) == (
        "PPOConfig: the agents 'a1' and 'b1' have the same policy 'one', but their action_spaces differ: Discrete(2) "
        "and Discrete(9); give each a policy of its own by policy_mapping_fn"
    )


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (lambda agent: ("p", agent), ("p", 3)),
        (lambda agent, episode: (agent, episode), (3, "episode")),
        (lambda agent, episode, worker: (agent, episode, worker), (3, "episode", "worker")),
        (lambda agent, episode, worker, **more: (agent, episode, worker, more), (3, "episode", "worker", {})),
        (lambda agent, episode, **more: (agent, episode, more), (3, "episode", {"worker": "worker"})),
        (lambda agent, **more: (agent, more), (3, {"episode": "episode", "worker": "worker"})),
        (lambda agent, *, worker: (agent, worker), (3, "worker")),
        (lambda agent, *rest: (agent, rest), (3, ("episode",))),
        (lambda *all_: all_, (3, "episode")),
        (str, "3"),
        (default_policy_mapping, DEFAULT_POLICY_ID),
    ],
)
def test_a_mapping_function_of_any_generation_is_called_as_it_wants(function: Any, given: Any) -> None:
    assert bound_mapping(function)(3, "episode", "worker") == given


def test_which_policies_learn() -> None:
    config = AlgorithmConfig().multi_agent(policies={"a", "b"})
    assert config.is_policy_to_train("a") and config.is_policy_to_train("b")
    config.multi_agent(policies_to_train={"b"})
    assert not config.is_policy_to_train("a") and config.is_policy_to_train("b")
    config.multi_agent(policies_to_train=lambda policy, batch: batch == policy)
    assert config.is_policy_to_train("a", "a") and not config.is_policy_to_train("a")
    config.multi_agent(policies_to_train=[])
    assert not config.is_policy_to_train("a")


def test_a_policy_has_settings_of_its_own() -> None:
    config = PPOConfig().multi_agent(
        policies={
            "a": PolicySpec(config={"gamma": 0.5, "model": {"fcnet_hiddens": [8]}}),
            "b": PolicySpec(config=PPOConfig().training(lambda_=0.5)),
            "c": (None, None, None, {}),
        }
    )
    config.rl_module(algorithm_config_overrides_per_module={"a": {"lr": 1.0}, "b": PPOConfig.overrides(lr=2.0)})
    config.freeze()
    of = config.get_config_for_module
    assert (of("a").gamma, of("a").lr, of("a").model.fcnet_hiddens, of("a").model.vf_share_layers) == (
        0.5,
        1.0,
        [8],
        False,
    )
    assert (of("b").gamma, of("b").lr, of("b").lambda_) == (0.99, 2.0, 0.5)
    assert of("c") is config and of("unknown") is config
    assert of("a").is_frozen and config.gamma == 0.99
    assert of("a").explain()["gamma"].set_by == "policies['a']"
    assert of("a").explain()["lr"].set_by == "algorithm_config_overrides_per_module['a']"


def test_a_dict_of_agents_is_a_mapping_function() -> None:
    given = {0: "a", "other": "b"}
    config = PPOConfig().multi_agent(policies=["a", "b"], policy_mapping_fn=given)
    assert [config.policy_mapping_fn(agent) for agent in given] == ["a", "b"]
    again = PPOConfig().multi_agent(policies=["a", "b"], policy_mapping_fn=dict(given))
    assert pickle.loads(pickle.dumps(config.policy_mapping_fn)) == again.policy_mapping_fn
    assert again == config != PPOConfig().multi_agent(policies=["a", "b"], policy_mapping_fn={0: "b"})
    with pytest.raises(ConfigError, match="is a dict without agent 'third': it has 0, 'other'. Add it"):
        config.policy_mapping_fn("third")


def test_a_spec_shows_what_it_is() -> None:
    assert repr(PolicySpec(SomePolicy, OBSERVATION, SMALL, {})) == (
        "PolicySpec(SomePolicy, Box(-1.0, 1.0, (3,), float32), Discrete(2), {})"
    )
    assert tuple(PolicySpec(1, 2, 3, 4)) == (1, 2, 3, 4)
    assert PolicySpec() == PolicySpec() != PolicySpec(config={}) and PolicySpec() != (None,) * 4

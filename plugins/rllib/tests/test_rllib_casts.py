"""Episodes go on while policies change: they keep those with which they began, and their mapping, until they end."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.envs.multi_agent import ALL, MultiAgentEnv
from kernel_rllib.envs.registry import env_maker
from kernel_rllib.errors import EnvError, UnknownPolicyError
from kernel_rllib.exploration.exploration import StochasticSampling
from kernel_rllib.modules.actor_critic import ActorCritic, ActorCriticOptions
from kernel_rllib.runners.blueprint import EnvSettings
from kernel_rllib.runners.casts import Cast, Casts
from kernel_rllib.runners.multi_agent_blueprint import MultiAgentBlueprint
from kernel_rllib.runners.multi_agent_sampler import MultiAgentSampler
from kernel_rllib.runners.place import RunnerPlace
from kernel_rllib.runners.policy_blueprint import PolicyBlueprint
from kernel_rllib.runners.scripted_lanes import ScriptedBlueprint, ScriptedLanes
from kernel_rllib.training.algorithm import Algorithm

import kernel

SEEN = spaces.Box(-100.0, 100.0, (1,), np.float32)
LENGTH = 8


class Late(MultiAgentEnv):
    """Agents "a" and "b" act in each step, and "c" from the third one on. Episodes have eight steps.

    What was done is what is seen next, so all that follows depends on who acted.
    """

    observation_space = SEEN
    action_space = spaces.Discrete(2)

    def __init__(self, env_config: Mapping[str, Any] | None = None) -> None:
        self._steps, self._sum = 0, 0.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin with two agents."""
        self._steps, self._sum = 0, float((seed or 0) % 7)
        return self._seen(), {}

    def step(self, action_dict: Mapping[Any, Any]) -> Any:
        """Count what was done, by agent."""
        self._steps += 1
        for place, (_, action) in enumerate(action_dict.items(), start=1):  # the order counts
            self._sum = (self._sum * 3 + place * float(action)) % 97
        rewards = {agent: float(action) for agent, action in action_dict.items()}
        return self._seen(), rewards, {ALL: self._steps >= LENGTH}, {ALL: False}, {}

    def _seen(self) -> dict[Any, Any]:
        there = ("a", "b") if self._steps < 2 else ("a", "b", "c")
        return {agent: np.array([self._sum], np.float32) for agent in there}


def learned() -> PolicyBlueprint:
    """Return what makes a policy act."""
    module = ActorCritic(1, 2, options=ActorCriticOptions(hidden=(4,)))
    exploration = StochasticSampling(for_space(spaces.Discrete(2)))
    return PolicyBlueprint(
        observation_space=SEEN, action_space=spaces.Discrete(2), module=module, exploration=exploration
    )


def before(agent: Any, episode: Any, worker: Any) -> str:
    """Return the policy of an agent of the first cast."""
    return {"a": "main", "b": "other", "c": "third"}[agent]


def after(agent: Any, episode: Any, worker: Any) -> str:
    """Return the policy of an agent when all have the same one."""
    return "main"


FIRST = MultiAgentBlueprint(
    envs=EnvSettings(env_maker(Late), {}),
    policies={"main": learned(), "other": learned(), "third": learned()},
    policy_of=before,
)
SECOND = replace(FIRST, policies={"main": learned()}, policy_of=after)
COPIES = (0, 1)


def vector_of(made: MultiAgentBlueprint) -> np.ndarray:
    """Return parameters for all policies."""
    modules = [policy.module for policy in made.policies.values() if isinstance(policy, PolicyBlueprint)]
    return np.concatenate([module.initial(np.random.default_rng(1)) for module in modules])


def sampler(made: MultiAgentBlueprint, copies: tuple[int, ...] = COPIES) -> MultiAgentSampler:
    """Return a sampler with parameters."""
    acting = made(RunnerPlace(0, copies, 0, 2))
    acting.set_weights(vector_of(made), 1)
    return acting


def changed(made: MultiAgentBlueprint = FIRST, copies: tuple[int, ...] = COPIES) -> MultiAgentSampler:
    """Return a sampler whose policies changed after the first step of an episode."""
    acting = sampler(made, copies)
    acting.sample(1)
    SECOND.change(acting)
    return acting


def policies_of(acting: MultiAgentSampler) -> list[dict[Any, str]]:
    """Return who has which policy in the episodes that go on."""
    return [episode.policies for episode in acting.episodes]


def earned(acting: MultiAgentSampler) -> list[dict[Any, float]]:
    """Return what agents have earned in the episodes that go on: what they did."""
    return [dict(episode.rewards) for episode in acting.episodes]


def test_an_episode_goes_on_as_if_nothing_had_changed() -> None:
    straight, other = sampler(FIRST), changed()
    straight.sample(1)
    for _ in range(LENGTH - 2):
        straight.sample(1)
        fragments = other.sample(1)
        assert list(fragments) == ["main"]  # nobody learns from what the others do
        assert earned(other) == earned(straight)
    assert policies_of(other) == [{"a": "main", "b": "other", "c": "third"}] * 2  # c came after the change
    other.sample(1)
    assert [summary.agents[1][1] for summary in other.take_episodes()] == ["other"] * 2
    other.sample(3)
    assert policies_of(other) == [{"a": "main", "b": "main", "c": "main"}] * 2


def test_what_is_gone_is_let_go_of_with_the_last_episode_that_has_it() -> None:
    acting = changed()
    assert [name for name, _ in acting._agents.casts.former] == ["other", "third"]
    acting.sample(LENGTH)
    assert acting._agents.casts.former == []


def test_a_policy_that_is_there_again_under_the_same_id_is_another_one() -> None:
    acting = changed()
    FIRST.change(acting)
    acting.set_weights(vector_of(FIRST) * 0 + 5, 2)
    straight = sampler(FIRST)
    straight.sample(1)
    straight.modules["main"].vector[...] = 5  # type: ignore[union-attr]  # this one has stayed
    for made in (acting, straight):
        made.sample(LENGTH - 2)
    assert earned(acting) == earned(straight)


@pytest.mark.parametrize("steps", [0, 3])
def test_a_runner_that_goes_on_elsewhere_has_the_policies_of_its_episodes(steps: int) -> None:
    acting = changed()
    acting.sample(steps)
    state = acting.state()
    again = SECOND(RunnerPlace(0, COPIES, 0, 2))
    again.set_weights(vector_of(SECOND), 1)
    again.set_state(state)
    for made in (acting, again):
        made.sample(2)
    assert policies_of(again) == policies_of(acting) == [{"a": "main", "b": "other", "c": "third"}] * 2
    assert earned(again) == earned(acting)
    assert again.state()["lanes"]["0"]["former"].keys() == {"other", "third"}


def test_a_copy_acts_alike_whichever_other_copies_its_runner_has() -> None:
    def of_copy_1(acting: MultiAgentSampler, place: int) -> dict[Any, float]:
        acting.sample(2)
        replace(FIRST, policies={"third": learned(), "main": learned()}).change(acting)
        acting.sample(3)
        return earned(acting)[place]

    assert of_copy_1(changed(), 1) == of_copy_1(changed(copies=(1,)), 0)


def test_actions_of_a_copy_are_in_the_order_of_its_own_cast() -> None:
    main, second, third = (ScriptedLanes(name, ONES, 0) for name in ("main", "second", "third"))
    casts = Casts(Cast({"main": main, "second": second, "third": third}, before), 2)
    casts.change(Cast({"third": third, "main": main}, before))
    casts.begin(0)
    casts.change(Cast({"main": main}, after))
    assert list(casts.acting()) == [main, third, second]  # copy 0 has no second one
    policies = {"x": "third", "y": "second", "z": "main"}
    assert list(casts.ordered(1, {"x": 1, "y": 2, "z": 3}, policies)) == ["z", "y", "x"]
    assert list(casts.ordered(0, {"z": 3, "x": 1}, policies)) == ["x", "z"]


class Ones:
    """Chooses 1, and can't be pickled where it is told so."""

    def __init__(self, observation_space: Any, action_space: Any, config: Mapping[str, Any]) -> None:
        pass

    def compute_actions(self, obs_batch: Any, state_batches: Any = None, **further: Any) -> Any:
        """Return 1 for each row."""
        return [1] * len(obs_batch), state_batches, {}


ONES = ScriptedBlueprint(Ones, SEEN, spaces.Discrete(2), {})


def test_a_policy_of_a_class_of_its_own_acts_on_too() -> None:
    acting = changed(replace(FIRST, policies={"main": learned(), "other": ONES, "third": learned()}))
    again = sampler(SECOND)
    again.set_state(acting.state())
    for made in (acting, again):
        made.sample(3)
        assert [rewards["b"] for rewards in earned(made)] == [4.0, 4.0]


def test_a_mapping_that_can_not_be_pickled_is_named() -> None:
    lock = threading.Lock()
    acting = changed(replace(FIRST, policy_of=lambda *given: lock and before(*given)))
    with pytest.raises(EnvError, match="as its policy_mapping_fn can't be pickled: TypeError: cannot pickle"):
        acting.state()
    acting.sample(LENGTH)  # its episodes are over
    assert "cast" not in acting.state()["lanes"]["0"]


def test_after_an_error_in_a_step_all_copies_begin_anew() -> None:
    acting = sampler(replace(FIRST, policies={"main": learned(), "other": learned()}))
    with pytest.raises(UnknownPolicyError, match="'third' for agent 'c', and there is no policy of that id"):
        acting.collect(4)
    SECOND.change(acting)
    assert acting.collect(1).env_steps == 2
    assert [episode.length for episode in acting.episodes] == [1, 1]


# -- in algorithms ----------------------------------------------------------------------------------------------------


def small(**env_runners: Any) -> PPOConfig:
    """Return small settings of an algorithm whose samples end in the midst of episodes."""
    return (
        PPOConfig()
        .training(train_batch_size=12, minibatch_size=12, num_epochs=1, lr=1.0, model={"fcnet_hiddens": [4]})
        .environment(Late)
        .env_runners(num_envs=4, num_cpus_per_env_runner=0, observation_filter="MeanStdFilter", **env_runners)
        .multi_agent(policies=["main", "other", "third"], policy_mapping_fn=before)
        .debugging(seed=3)
    )


def removed(algorithm: Any) -> Any:
    """Return an algorithm that has trained, and lost two policies."""
    algorithm.train()
    for policy_id in ("other", "third"):
        algorithm.remove_policy(policy_id, policy_mapping_fn=lambda *_, **__: "main")
    return algorithm


def trained(algorithm: Any) -> bytes:
    """Return the parameters after three more iterations; removed policies act on into the second one."""
    results = [algorithm.train() for _ in range(3)]
    assert set(results[1]["policy_reward_mean"]) == {"main", "other", "third"}
    assert [set(result["learners"]) for result in results] == [{"main"}] * 3
    algorithm.stop()
    return bytes(algorithm.learners["main"].weights.tobytes())


@pytest.fixture(scope="module")
def expected() -> bytes:
    """The parameters of a run without other runners."""
    return trained(removed(small(num_env_runners=0).build()))


@pytest.mark.usefixtures("session")
def test_runners_elsewhere_and_those_that_replace_them_end_with_the_same_bits(expected: bytes) -> None:
    many = removed(small(num_env_runners=2).fault_tolerance(recovery="exact").build())
    many.runners.foreach(lambda runner: runner.index)  # their states of now have been sent
    for _, handle in many.runners.actors():
        kernel.kill(handle)
    assert trained(many) == expected


def test_a_checkpoint_has_them(expected: bytes, tmp_path: Path) -> None:
    path = removed(small(num_env_runners=0).build()).save(str(tmp_path / "checkpoint"))
    assert trained(Algorithm.from_checkpoint(path, trust=True)) == expected
    untrusted = Algorithm.from_checkpoint(path, config={"policy_mapping_fn": after})
    assert set(untrusted.train()["learners"]) == {"main"}

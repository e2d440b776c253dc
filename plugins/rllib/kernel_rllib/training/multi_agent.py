"""The policies of an environment with several agents: their spaces, their settings, and which of them learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID, PolicySpec, bound_mapping
from kernel_rllib.data.batch import Batch, MultiAgentBatch, concatenated
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.external import has_several_agents
from kernel_rllib.envs.multi_agent import agent_space, known_agents
from kernel_rllib.envs.registry import env_maker
from kernel_rllib.errors import ConfigError
from kernel_rllib.runners.agent_spaces import are_alike
from kernel_rllib.runners.multi_agent_blueprint import MultiAgentBlueprint
from kernel_rllib.runners.policy_blueprint import PolicyBlueprint
from kernel_rllib.runners.policy_spaces import complete_spaces, with_policy_spaces
from kernel_rllib.runners.scripted_lanes import ScriptedBlueprint, require_scripted
from kernel_rllib.training.parts import env_settings_of
from kernel_rllib.training.reports import runner_callbacks_of
from kernel_rllib.training.spaces import Spaces


def policies_of(
    config: AlgorithmConfig, look: Callable[[Any], None] = lambda env: None
) -> dict[str, PolicySpec] | None:
    """Return the policies of a config, with their spaces; None where the environment has one agent.

    Args:
        config: The settings.
        look: Called with the environment, where it has several agents.

    Raises:
        ConfigError: If nothing says what a policy's spaces are, agents of different spaces share a policy, or a setting
            has no effect with several agents.
        EnvError: If the environment can't be made.
    """
    if not config.is_multi_agent and config.observation_space is not None and config.action_space is not None:
        _refuse_settings_of_its_own(config)
        return None
    env = env_maker(config.env)(EnvContext(config.env_config))
    try:
        if not config.is_multi_agent and not has_several_agents(env):
            _refuse_settings_of_its_own(config)
            return None
        policies, _ = config.get_multi_agent_setup(env=env)
        complete_spaces(env, policies, bound_mapping(config.policy_mapping_fn), EnvContext(config.env_config))
        look(env)
    finally:
        close = getattr(env, "close", None)
        if close is not None:
            close()
    _refuse(config)
    return policies


def _refuse_settings_of_its_own(config: AlgorithmConfig) -> None:
    """Raise ConfigError where the policy of an environment of one agent has settings of its own."""
    spec = config.policies[DEFAULT_POLICY_ID]
    if config.algorithm_config_overrides_per_module or spec.config:
        raise ConfigError(
            f"{config.title}: the environment has one agent, and its policy was given settings of its own "
            f"(algorithm_config_overrides_per_module, or the config of policies[{DEFAULT_POLICY_ID!r}]); give them to "
            "the config itself"
        )


def require_agents_with_spaces(config: AlgorithmConfig, policy_id: str, spec: PolicySpec) -> None:
    """Raise ConfigError if a policy has spaces that no agent of the environment has, as far as it says which it has."""
    given = {"observation_space": spec.observation_space, "action_space": spec.action_space}
    wanted = {kind: space for kind, space in given.items() if space is not None}
    if not wanted:
        return
    env = env_maker(config.env)(EnvContext(config.env_config))
    try:
        for kind, space in wanted.items():
            found = {agent: agent_space(env, kind, agent) for agent in known_agents(env)}
            if found and not any(are_alike(of_agent, space) for of_agent in found.values()):
                agent, other = next(iter(found.items()))
                raise ConfigError(
                    f"the policy {policy_id!r} was given the {kind} {space}, and no agent has it: that of agent "
                    f"{agent!r} is {other}. Leave it out, or give that of the agents that it acts for"
                )
    finally:
        close = getattr(env, "close", None)
        if close is not None:
            close()


def _refuse(config: AlgorithmConfig) -> None:
    """Raise ConfigError for what has no effect with several agents."""
    if config.no_done_at_end:
        raise ConfigError(
            f"{config.title}: no_done_at_end=True is for environments of one agent; let the environment return "
            "truncateds in place of terminateds"
        )
    for policy_id, spec in config.policies.items():
        if spec.policy_class is not None:
            require_scripted(policy_id, spec.policy_class)
            chosen = config.policies_to_train
            if chosen is not None and not callable(chosen) and policy_id in chosen:
                raise ConfigError(
                    f"{config.title}: policies_to_train has {policy_id!r}, which is of a class of its own, "
                    f"{spec.policy_class.__name__}, and acts without learning: leave it out there, or leave the class "
                    "out of its PolicySpec"
                )


def scripted_policies_of(config: AlgorithmConfig, policies: Mapping[str, PolicySpec]) -> dict[str, ScriptedBlueprint]:
    """Return the blueprints of the policies that have a class of the user's own."""
    return {
        policy_id: ScriptedBlueprint(
            given.policy_class,
            policies[policy_id].observation_space,
            policies[policy_id].action_space,
            {} if given.config is None else dict(given.config),
        )
        for policy_id, given in config.policies.items()
        if given.policy_class is not None
    }


def spaces_of_policy(spec: PolicySpec) -> Spaces:
    """Return the spaces of a policy."""
    return Spaces(spec.observation_space, spec.action_space)


def multi_agent_blueprint_of(
    config: AlgorithmConfig, policies: Mapping[str, PolicyBlueprint | ScriptedBlueprint], seed: int
) -> MultiAgentBlueprint:
    """Return the blueprint of the runners' samplers, in which policies act for several agents.

    Args:
        config: The settings of training, or of evaluation.
        policies: The blueprints of the policies that act, by id.
        seed: The seed of the run.
    """
    envs, policy_of = env_settings_of(config), bound_mapping(config.policy_mapping_fn)
    return MultiAgentBlueprint(
        envs=replace(envs, maker=with_policy_spaces(envs.maker, policies, policy_of)),
        policies=policies,
        policy_of=policy_of,
        complete_episodes=config.batch_mode == "complete_episodes",
        seed=seed,
        callbacks=runner_callbacks_of(config),
    )


def learning_policies(
    config: AlgorithmConfig, fragments: Mapping[str, Sequence[Fragment]], known: Sequence[str], env_steps: int
) -> list[str]:
    """Return the ids of the policies that are to learn from what was sampled, in the order of `known`.

    Args:
        config: The settings: `policies_to_train` has their ids, or decides by a batch of all that was sampled.
        fragments: The sampled steps, by policy.
        known: The policies that can learn.
        env_steps: The number of steps that the environments made for them.
    """
    there = [policy_id for policy_id in known if policy_id in fragments]
    if not callable(config.policies_to_train):
        return [policy_id for policy_id in there if config.is_policy_to_train(policy_id)]
    batches: dict[str, Batch] = {}
    for policy_id in there:
        batch = concatenated([fragment.batch() for fragment in fragments[policy_id]])
        assert isinstance(batch, Batch)
        batches[policy_id] = batch
    whole = MultiAgentBatch(batches, env_steps)
    return [policy_id for policy_id in there if config.is_policy_to_train(policy_id, whole)]

"""From settings to runners that read recorded experience, and to those that write what they sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID
from kernel_rllib.offline.action_rows import RecordedActions
from kernel_rllib.offline.recorded_lanes import RecordedBlueprint, RecordedPolicy
from kernel_rllib.offline.recording import Recording
from kernel_rllib.offline.sources import reader_maker, writer_maker
from kernel_rllib.runners.blueprint import Blueprint
from kernel_rllib.runners.group import MakeSampler
from kernel_rllib.runners.group_settings import GroupSettings
from kernel_rllib.runners.multi_agent_blueprint import MultiAgentBlueprint
from kernel_rllib.runners.policy_blueprint import PolicyBlueprint


def sampler_maker(
    blueprint: Blueprint | MultiAgentBlueprint, config: AlgorithmConfig, needed: Sequence[str], log_dir: str
) -> MakeSampler:
    """Return the factory of the runners' lanes: those of the blueprint, or lanes that read, by the settings.

    Args:
        blueprint: The blueprint of the lanes that step environments.
        config: The settings.
        needed: The columns that are learned from beside observations, actions, rewards and ends.
        log_dir: The directory that the run writes its results into.
    """
    make_reader = reader_maker(config)
    if make_reader is None:
        return blueprint
    policies = {name: RecordedPolicy.of_blueprint(policy, needed) for name, policy in _policies(blueprint).items()}
    return RecordedBlueprint(
        blueprint,
        policies,
        make_reader,
        config,
        is_normalised=config.actions_in_input_normalized,
        log_dir=log_dir,
        fragment_length=config.get_rollout_fragment_length(),
    )


def with_recording(
    settings: GroupSettings,
    blueprint: Blueprint | MultiAgentBlueprint,
    config: AlgorithmConfig,
    log_dir: str,
) -> GroupSettings:
    """Return how runners live, with writing what they sample as their first work where the settings say so."""
    make_writer = writer_maker(config, log_dir)
    if make_writer is None:
        return settings
    actions = {
        policy_id: RecordedActions(policy.action_space, unsquashes=policy.actions.unsquash)
        for policy_id, policy in _policies(blueprint).items()
    }
    seed, then = blueprint.seed, settings.work
    return replace(settings, work=Recording(make_writer, actions, seed, config=config, log_dir=log_dir, then=then))


def _policies(blueprint: Blueprint | MultiAgentBlueprint) -> dict[str, PolicyBlueprint]:
    """Return the policies that learn, by id."""
    if isinstance(blueprint, Blueprint):
        return {DEFAULT_POLICY_ID: blueprint}
    return {
        policy_id: policy for policy_id, policy in blueprint.policies.items() if isinstance(policy, PolicyBlueprint)
    }

"""From settings to the parts of a run: environments, blueprints of runners, and how groups of them live."""

from __future__ import annotations

from kernel_rllib.algorithms.reports import runner_callbacks_of
from kernel_rllib.algorithms.spaces import Spaces
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.envs.registry import env_maker
from kernel_rllib.exploration.exploration import Exploration
from kernel_rllib.modules.module import Module
from kernel_rllib.runners.blueprint import ActionSettings, Blueprint, EnvSettings
from kernel_rllib.runners.group import GroupSettings

KINDS = {
    "sync": "auto",
    "async": "processes",
    "vector_entry_point": "native",
    "loop": "loop",
    "native": "native",
    "processes": "processes",
    "actors": "actors",
}
"""How lanes are stepped, by the words of settings."""


def env_settings_of(config: AlgorithmConfig) -> EnvSettings:
    """Return how environments are made and stepped. Raises EnvError if none has the name that is given."""
    return EnvSettings(
        env_maker(config.env),
        config.env_config,
        kind="actors" if config.remote_worker_envs else KINDS[config.gym_env_vectorize_mode],
        restart_failed=config.restart_failed_sub_environments,
    )


def blueprint_of(
    config: AlgorithmConfig, envs: EnvSettings, spaces: Spaces, module: Module, exploration: Exploration, seed: int
) -> Blueprint:
    """Return what makes the samplers of runners.

    Args:
        config: The settings of training, or of evaluation.
        envs: How environments are made.
        spaces: What one of them observes and takes.
        module: What acts.
        exploration: How it chooses.
        seed: The seed of the run.
    """
    return Blueprint(
        envs=envs,
        observation_space=spaces.observation,
        action_space=spaces.action,
        module=module,
        exploration=exploration,
        actions=ActionSettings(config.normalize_actions, config.clip_actions),
        preprocessor=config.preprocessor_pref,
        model_options=config.model.to_dict(),
        complete_episodes=config.batch_mode == "complete_episodes",
        seed=seed,
        callbacks=runner_callbacks_of(config),
    )


def group_settings_of(config: AlgorithmConfig) -> GroupSettings:
    """Return how many runners there are, with which lanes, and how they live."""
    remote = config.num_env_runners > 0
    indices = range(1, config.num_env_runners + 1) if remote else (0,)
    return GroupSettings(
        lanes=[tuple(config.lanes_of(index)) for index in indices],
        remote=remote,
        options={
            "num_cpus": config.num_cpus_per_env_runner,
            "num_gpus": config.num_gpus_per_env_runner,
            "resources": config.custom_resources_per_env_runner,
        },
        recovery=config.recovery,
        tolerated_failures=config.num_consecutive_env_runner_failures_tolerance,
    )

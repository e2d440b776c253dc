"""From settings to the parts of a run: environments, blueprints of runners, and how groups of them live."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.connectors.clip_rewards import is_atari_name, reward_clipper
from kernel_rllib.connectors.env_to_module import EnvToModule
from kernel_rllib.connectors.pipeline import observation_connectors
from kernel_rllib.connectors.preprocessors import preprocessor_of
from kernel_rllib.envs.atari import DeepMindMaker
from kernel_rllib.envs.registry import EnvMaker, env_maker
from kernel_rllib.exploration.exploration import Exploration
from kernel_rllib.modules.module import Module
from kernel_rllib.runners.blueprint import Blueprint, EnvSettings
from kernel_rllib.runners.group_settings import GroupSettings
from kernel_rllib.runners.patience import Limits
from kernel_rllib.runners.policy_blueprint import ActionSettings, PolicyBlueprint
from kernel_rllib.spaces.preprocessors import preprocessor_named
from kernel_rllib.training.reports import runner_callbacks_of
from kernel_rllib.training.spaces import Spaces

KINDS = {
    "sync": "auto",
    "async": "processes",
    "vector_entry_point": "native",
    "loop": "loop",
    "native": "native",
    "processes": "processes",
    "actors": "actors",
}
"""The kinds of vectors that step the lanes, by the values of the setting."""


def env_maker_of(config: AlgorithmConfig, *, lives: bool = True) -> EnvMaker:
    """Return the function that makes environments: games of Atari as `preprocessor_pref` says.

    Args:
        config: The settings.
        lives: True if an episode of such a game is a life, unless samples are to be of whole episodes.

    Raises:
        EnvError: If none has the name that is given.
    """
    if config.env is None and config.input_ != "sampler":  # Spaces are given, and no environment is stepped.
        return EnvMaker("None", lambda context: env_maker(None)(context))
    maker = env_maker(config.env)
    if config.preprocessor_pref != "deepmind" or not _is_atari(config) or config.model.custom_preprocessor is not None:
        return maker
    lives = lives and config.batch_mode != "complete_episodes"
    return EnvMaker(maker.name, DeepMindMaker(maker, config.model.dim, config.model.framestack, lives))


def _is_atari(config: AlgorithmConfig) -> bool:
    return is_atari_name(config.env) if config.is_atari is None else bool(config.is_atari)


def env_settings_of(config: AlgorithmConfig) -> EnvSettings:
    """Return how environments are made and stepped. Raises EnvError if none has the name that is given."""
    return EnvSettings(
        env_maker_of(config),
        config.env_config,
        kind="actors" if config.remote_worker_envs else KINDS[config.gym_env_vectorize_mode],
        restart_failed=config.restart_failed_sub_environments,
        max_episode_steps=config.horizon,
        batch_wait_ms=config.remote_env_batch_wait_ms,
        ends_are_cuts=config.no_done_at_end,
    )


def env_to_module_of(config: AlgorithmConfig, spaces: Spaces) -> EnvToModule:
    """Return the connectors that turn observations into inputs of modules, without learning from them.

    Raises:
        ConfigError: If a connector that the settings name can't be taken.
    """
    preprocessor = preprocessor_of(spaces.observation, config.preprocessor_pref, config.model.to_dict())
    return EnvToModule(preprocessor, observation_connectors(config, spaces.action, False))


def policy_blueprint_of(
    config: AlgorithmConfig,
    spaces: Spaces,
    module: Module,
    exploration: Exploration,
    *,
    learns: bool = True,
    told: tuple[str, ...] = (),
) -> PolicyBlueprint:
    """Return the blueprint by which a policy acts.

    Args:
        config: The settings of training, or of evaluation.
        spaces: The spaces of the policy's observations and actions.
        module: The module that acts.
        exploration: The exploration that chooses its actions.
        learns: True if filters learn from what is observed; False where the policy is only evaluated.
        told: The numbers in infos that are columns.
    """
    return PolicyBlueprint(
        observation_space=spaces.observation,
        action_space=spaces.action,
        module=module,
        exploration=exploration,
        actions=ActionSettings(config.normalize_actions, config.clip_actions),
        observation_connectors=partial(observation_connectors, config, spaces.action),
        learns=learns,
        clip_rewards=reward_clipper(config.clip_rewards, is_atari=_is_atari(config)),
        preprocessor=config.preprocessor_pref,
        model_options=_model_options(config),
        told=told,
    )


def _model_options(config: AlgorithmConfig) -> dict[str, Any]:
    """Return the options of the model, with classes in place of names: those are known in this process alone."""
    options = config.model.to_dict()
    return {**options, "custom_preprocessor": preprocessor_named(options["custom_preprocessor"])}


def blueprint_of(config: AlgorithmConfig, policy: PolicyBlueprint, seed: int) -> Blueprint:
    """Return the blueprint of the runners' samplers, in which one policy acts for one agent of each environment.

    Args:
        config: The settings of training, or of evaluation.
        policy: The blueprint of the policy that acts.
        seed: The seed of the run.

    Raises:
        EnvError: If no environment has the name that is given.
    """
    return Blueprint(
        **{part.name: getattr(policy, part.name) for part in fields(policy)},
        envs=env_settings_of(config),
        complete_episodes=config.batch_mode == "complete_episodes",
        seed=seed,
        callbacks=runner_callbacks_of(config),
    )


def group_settings_of(config: AlgorithmConfig, share: float | None = None) -> GroupSettings:
    """Return how many runners there are, with which lanes, and how they live.

    Args:
        config: The settings of training, or of evaluation.
        share: The largest number of CPUs that a runner may reserve; see `cpu_shares`. None for as many as it asks for.
    """
    cpus = config.num_cpus_per_env_runner
    remote = config.num_env_runners > 0
    indices = range(1, config.num_env_runners + 1) if remote else (0,)
    return GroupSettings(
        lanes=[tuple(config.lanes_of(index)) for index in indices],
        remote=remote,
        options={
            "num_cpus": cpus if share is None else min(share, cpus),
            "num_gpus": config.num_gpus_per_env_runner,
            "resources": config.custom_resources_per_env_runner,
        },
        recovery=config.recovery,
        tolerated_failures=config.num_consecutive_env_runner_failures_tolerance,
        most_restarts=config.max_num_env_runner_restarts,
        limits=Limits(
            late=config.sample_timeout_s,
            sign_of_life=config.env_runner_health_probe_timeout_s,
            ready=config.env_runner_restore_timeout_s,
        ),
    )

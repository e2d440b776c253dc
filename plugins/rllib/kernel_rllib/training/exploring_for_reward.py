"""From settings to intrinsic rewards: `exploration_config={"type": "Curiosity"}` or `"RND"`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.errors import ConfigError
from kernel_rllib.learners.learner import Learner, Loss, Objective
from kernel_rllib.modules.actor_critic import ActorCriticOptions
from kernel_rllib.modules.catalog import activation_name, actor_critic_options
from kernel_rllib.modules.intrinsic_networks import CuriosityNetwork, CuriosityOptions, DistillationNetwork
from kernel_rllib.modules.module import Module
from kernel_rllib.nearest import did_you_mean
from kernel_rllib.nn.backend import Backend
from kernel_rllib.nn.schedules import schedule
from kernel_rllib.spaces.action_rows import row_space
from kernel_rllib.training.curiosity import Curiosity, CuriositySettings, curiosity_loss
from kernel_rllib.training.intrinsic_reward import IntrinsicReward, Streams
from kernel_rllib.training.random_network_distillation import RND, RNDSettings, distillation_loss
from kernel_rllib.training.spaces import Spaces

REWARDS, ADVANTAGES = "rewards", "advantages"
"""What an algorithm takes of intrinsic rewards: that they are added to rewards, or advantages of their own."""

_Settings = TypeVar("_Settings", CuriositySettings, RNDSettings)


def intrinsic_reward_of(
    config: AlgorithmConfig,
    takes: frozenset[str],
    observation: tuple[int, ...],
    spaces: Spaces,
    backend: Backend,
    stream: Streams,
) -> IntrinsicReward | None:
    """Return what makes the intrinsic rewards that settings describe; None where they describe none.

    Args:
        config: The settings.
        takes: The uses of intrinsic rewards that the algorithm has: `REWARDS`, `ADVANTAGES`, or none.
        observation: The shape of one row of observations.
        spaces: The spaces of observations and actions.
        backend: The backend that the policy is learned by.
        stream: The function that returns a generator of random numbers for a purpose.

    Raises:
        ConfigError: If the algorithm does not take such rewards, or a setting can't be.
    """
    kind = config.intrinsic_reward_kind
    if kind is None:
        return None
    if REWARDS not in takes:
        raise ConfigError(
            f"{config.title}: exploration_config has the type {kind!r}, whose rewards are made where one process "
            "learns from all samples, step by step, and this algorithm does not learn so: take PPO, A2C, PG, IMPALA, "
            "APPO, SimpleQ, DQN, SAC, TD3 or DDPG"
        )
    if kind == "Curiosity":
        return _curiosity(config, observation, spaces, backend, stream)
    return _distillation(config, takes, observation, backend, stream)


def _curiosity(
    config: AlgorithmConfig, observation: tuple[int, ...], spaces: Spaces, backend: Backend, stream: Streams
) -> IntrinsicReward:
    settings = _settings(config, CuriositySettings)
    _require_between(config, "beta", settings.beta, 0, 1)
    options = CuriosityOptions(
        settings.feature_dim,
        _hidden(config, settings.feature_net_config),
        (tuple(settings.inverse_net_hiddens), activation_name(settings.inverse_net_activation)),
        (tuple(settings.forward_net_hiddens), activation_name(settings.forward_net_activation)),
    )
    module = CuriosityNetwork(observation, for_space(row_space(spaces.action)), options)
    learner = _learner(backend, module, curiosity_loss(settings.beta), "curiosity", settings.lr, stream)
    return Curiosity(learner, stream, settings)


def _distillation(
    config: AlgorithmConfig, takes: frozenset[str], observation: tuple[int, ...], backend: Backend, stream: Streams
) -> IntrinsicReward:
    settings = _settings(config, RNDSettings)
    if settings.nonepisodic_returns and (ADVANTAGES not in takes or not getattr(config, "use_critic", False)):
        raise ConfigError(
            f"{config.title}: exploration_config has nonepisodic_returns=True, which adds advantages of its own to "
            "those of a value function, and this algorithm estimates none so: leave it at False, or take PPO or A2C "
            "with use_critic=True"
        )
    _require_between(config, "intrinsic_gamma", settings.intrinsic_gamma, 0, 1)
    values = settings.nonepisodic_returns
    hidden = _hidden(config, settings.distill_net_config)
    module = DistillationNetwork(observation, settings.embed_dim, hidden, values=values)
    learned = ("predictor", "value")
    learner = _learner(backend, module, distillation_loss(values=values), "rnd", settings.lr, stream, learned)
    return RND(learner, stream, settings, observation)


def _settings(config: AlgorithmConfig, kind: type[_Settings]) -> _Settings:
    """Return the settings beside `type`. Raises ConfigError for one that there is not."""
    given: Mapping[str, Any] = config.exploration_config
    known = [field.name for field in fields(kind)]
    for name in given:
        if name != "type" and name not in known:
            raise ConfigError(
                f"exploration_config has {name!r}, which {config.intrinsic_reward_kind} does not take"
                f"{did_you_mean(name, known, '; it takes ' + ', '.join(known))}"
            )
    return kind(**{name: value for name, value in given.items() if name != "type"})


def _require_between(config: AlgorithmConfig, name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ConfigError(f"{config.title}: exploration_config has {name}={value}, but must be from {low} to {high}")


def _hidden(config: AlgorithmConfig, given: Mapping[str, Any] | None) -> ActorCriticOptions:
    """Return the layers of the policy's model, with what `given` has in place of its options."""
    model = config.model.copy(copy_frozen=False)
    model.update(given or {})
    return actor_critic_options(model)


def _learner(
    backend: Backend,
    module: Module,
    loss: Loss,
    name: str,
    rate: Any,
    stream: Streams,
    trainable: tuple[str, ...] | None = None,
) -> Learner:
    objective = Objective(loss, schedule(rate, "exploration_config/lr"), trainable=trainable)
    return Learner(module, backend, {name: objective}, stream("intrinsic_parameters"))

"""Explorations of policies, as configs describe them: draws from a distribution, or noise on actions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from kernel_rllib.arrays import Array
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.errors import ConfigError
from kernel_rllib.exploration.action_noise import (
    GaussianNoise,
    OrnsteinUhlenbeckNoise,
    PerWorkerGaussianNoise,
    PerWorkerOrnsteinUhlenbeckNoise,
    RandomActions,
)
from kernel_rllib.exploration.epsilon_greedy import Random
from kernel_rllib.exploration.exploration import Exploration, StochasticSampling
from kernel_rllib.exploration.parameter_noise import ParameterNoiseOfActions
from kernel_rllib.nearest import did_you_mean
from kernel_rllib.nn.schedules import PiecewiseSchedule, schedule
from kernel_rllib.training.exploration_of_users import exploration_name, own_exploration

_SCALE = ("random_timesteps", "initial_scale", "final_scale", "scale_timesteps", "scale_schedule")
_DRIFT = (*_SCALE, "ou_theta", "ou_sigma", "ou_base_scale")
_OF_PARAMETERS = ("initial_stddev", "random_timesteps", "sub_exploration")
_TARGET = 0.2
"""How far noise on parameters moves actions, where the exploration inside does not say it (section 4 of the paper)."""
_ARGUMENTS = {
    "StochasticSampling": ("random_timesteps",),
    "Random": (),
    "GaussianNoise": (*_SCALE, "stddev"),
    "PerWorkerGaussianNoise": (*_SCALE, "stddev"),
    "OrnsteinUhlenbeckNoise": _DRIFT,
    "PerWorkerOrnsteinUhlenbeckNoise": _DRIFT,
}
_GAUSSIAN = {"GaussianNoise": GaussianNoise, "PerWorkerGaussianNoise": PerWorkerGaussianNoise}
_DRIFTING = {
    "OrnsteinUhlenbeckNoise": OrnsteinUhlenbeckNoise,
    "PerWorkerOrnsteinUhlenbeckNoise": PerWorkerOrnsteinUhlenbeckNoise,
}


def exploration_of_policy(
    settings: Mapping[str, Any],
    distribution: Distribution,
    bounds: tuple[Array, Array] | None,
    *,
    perturbs: bool = False,
) -> Exploration:
    """Return the exploration that a config describes, for learning from replay.

    Args:
        settings: The `type` of the exploration and its options, under the names of RLlib.
        distribution: The distribution that makes actions of the policy's outputs.
        bounds: The lowest and the highest numbers of an action, [d] each; None where actions are discrete.
        perturbs: True if the exploration may perturb parameters.

    Raises:
        ConfigError: If there is none of this type for such actions, or it does not take what it is given.
    """
    own = own_exploration(settings, distribution=distribution, bounds=bounds)
    if own is not None:
        return own
    if perturbs and exploration_name(settings, "") == "ParameterNoise":
        return _noise_on_parameters(settings, distribution, bounds)
    kind = _checked_type(settings)
    if "Noise" in kind and bounds is None:
        raise ConfigError(
            f"exploration_config has the type {kind!r}, which disturbs continuous actions, and these are discrete: "
            "take 'StochasticSampling' or 'Random'"
        )
    first: Any = math.inf if kind == "Random" else settings.get("random_timesteps", 1000 if "Noise" in kind else 0)
    then = _exploration(kind, settings, distribution, bounds)
    if not first:
        return then
    return Random(distribution.parameter_size, then, first) if bounds is None else RandomActions(bounds, then, first)


def noise_settings(settings: Mapping[str, Any]) -> tuple[float, int]:
    """Return the first deviation of noise on parameters, and for how many steps actions are random.

    Raises:
        ConfigError: If there are other settings, or one can't be.
    """
    for name in settings:
        if name != "type" and name not in _OF_PARAMETERS:
            raise ConfigError(
                f"exploration_config has {name!r}, which ParameterNoise does not take"
                f"{did_you_mean(name, _OF_PARAMETERS, '; it takes ' + ', '.join(_OF_PARAMETERS))}"
            )
    stddev = float(settings.get("initial_stddev", 1.0))
    if not stddev > 0:
        raise ConfigError(f"exploration_config has initial_stddev={stddev}, but must be above 0: it adapts from there")
    return stddev, int(settings.get("random_timesteps", 10_000))


def _noise_on_parameters(
    settings: Mapping[str, Any], distribution: Distribution, bounds: tuple[Array, Array] | None
) -> Exploration:
    """Return the exploration that perturbs a policy, as far as the noise would move actions that is within."""
    stddev, steps = noise_settings(settings)
    inside = settings.get("sub_exploration") or {"type": "OrnsteinUhlenbeckNoise", "random_timesteps": steps}
    then = exploration_of_policy(inside, distribution, bounds)
    target = inside.get("ou_sigma", inside.get("stddev", _TARGET))
    return ParameterNoiseOfActions(then, stddev, distribution, float(target))


def _checked_type(settings: Mapping[str, Any]) -> str:
    kind = exploration_name(settings, "StochasticSampling")
    if kind not in _ARGUMENTS:
        raise ConfigError(
            f"exploration_config has the type {kind!r}, which a policy that learns from replay can't explore by: take "
            f"one of {', '.join(_ARGUMENTS)}"
        )
    for name in settings:
        if name != "type" and name not in _ARGUMENTS[kind]:
            takes = ", ".join(_ARGUMENTS[kind]) or "nothing else"
            raise ConfigError(
                f"exploration_config has {name!r}, which {kind} does not take"
                f"{did_you_mean(name, _ARGUMENTS[kind], f'; it takes {takes}')}"
            )
    return kind


def _exploration(
    kind: str, settings: Mapping[str, Any], distribution: Distribution, bounds: tuple[Array, Array] | None
) -> Exploration:
    if kind in _GAUSSIAN and bounds is not None:
        return _GAUSSIAN[kind](distribution, bounds, stddev=settings.get("stddev", 0.1), scale=_scale(settings))
    if kind in _DRIFTING and bounds is not None:
        return _DRIFTING[kind](
            distribution,
            bounds,
            theta=settings.get("ou_theta", 0.15),
            sigma=settings.get("ou_sigma", 0.2),
            base_scale=settings.get("ou_base_scale", 0.1),
            scale=_scale(settings),
        )
    return StochasticSampling(distribution, records=False)


def _scale(settings: Mapping[str, Any]) -> Callable[[float], float]:
    """Return what noise is multiplied with: a line that begins when actions are no longer random."""
    given = settings.get("scale_schedule")
    if given is not None:
        return schedule(given, "exploration_config/scale_schedule").value
    begin = settings.get("random_timesteps", 1000)
    end = begin + max(settings.get("scale_timesteps", 10_000), 1)
    values = settings.get("initial_scale", 1.0), settings.get("final_scale", 0.02)
    return PiecewiseSchedule([(begin, values[0]), (end, values[1])]).value

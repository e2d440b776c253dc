"""Distributions of actions that users write: which one settings name, and which one an action space gets without."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.distributions.in_torch import TorchDistribution
from kernel_rllib.errors import ConfigError
from kernel_rllib.given_names import GivenNames
from kernel_rllib.spaces.action_rows import row_space

_DISTRIBUTIONS = GivenNames("distribution of actions", "custom_action_dist", "register_custom_action_dist")

register_distribution = _DISTRIBUTIONS.register
"""Gives a distribution of actions a name, which `model={"custom_action_dist": name}` takes."""


def distribution_of(action_space: Any, model: Mapping[str, Any]) -> Distribution:
    """Return the distribution of actions that options name, or the usual one of the action space.

    Args:
        action_space: The action space; distributions are over its rows, which count from 0.
        model: The options `model` of a config. `custom_action_dist` is a `Distribution`, a class of such, or a class
            of the first generation, in torch; or the registered name or dotted path of one. The constructor of a
            `Distribution` is given those of `action_space` and `model_config` that it names.

    Raises:
        ConfigError: If there is none of that name, or it is no distribution.
        MissingDependencyError: If it is one in torch, which is not installed.
    """
    given = _DISTRIBUTIONS.named(model.get("custom_action_dist"))
    rows = row_space(action_space)
    if given is None:
        return for_space(rows, free_log_std=bool(model.get("free_log_std", False)))
    if model.get("free_log_std"):
        raise ConfigError(
            "free_log_std is an option of the usual distribution, and custom_action_dist names another; leave one of "
            "them out"
        )
    if isinstance(given, Distribution):
        return given
    if isinstance(given, type) and issubclass(given, Distribution):
        return _made(given, {"action_space": rows, "model_config": dict(model)})
    return TorchDistribution(given, action_space, model)


def _made(given: type[Distribution], told: Mapping[str, Any]) -> Distribution:
    asked = inspect.signature(given).parameters
    arguments = {name: value for name, value in told.items() if name in asked}
    try:
        return given(**arguments)
    except TypeError as error:
        raise ConfigError(
            f"custom_action_dist {given.__name__} can't be made with {', '.join(arguments) or 'no arguments'}: {error}."
            f" It is given those of {' and '.join(told)} that its constructor names"
        ) from error

"""Defaults as the dicts that older programs import, copy and change: `COMMON_CONFIG`, `MODEL_DEFAULTS`, and merging."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.generations import Generation
from kernel_rllib.config.merging import is_new_type
from kernel_rllib.config.model_config import ModelConfig
from kernel_rllib.errors import UnknownSettingError
from kernel_rllib.nearest import did_you_mean

COMMON_CONFIG = AlgorithmConfig.default_dict("0.8.5")
"""The settings that all trainers of 0.8.5 share."""

OPEN_KEYS = (
    "tf_session_args",
    "local_tf_session_args",
    "env_config",
    "model",
    "optimizer",
    "multiagent",
    "custom_resources_per_worker",
    "evaluation_config",
    "exploration_config",
    "replay_buffer_config",
    "extra_python_environ_for_driver",
    "extra_python_environ_for_worker",
    "extra_python_environs_for_driver",
    "extra_python_environs_for_worker",
    "input_config",
    "output_config",
)
"""Keys whose dicts may get keys that the defaults don't have."""


def model_defaults(generation: Generation = "current") -> dict[str, Any]:
    """Return the options of models with their defaults, as `MODEL_DEFAULTS` of a generation was."""
    return ModelConfig.default_dict(generation)


def merge_dicts(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return a deep copy of one dict with another merged into it; neither is changed."""
    return merge_trainer_configs(one, other, allow_unknown=True)


def with_common_config(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the common defaults of 0.8.5 with those of a trainer of one's own."""
    return merge_dicts(COMMON_CONFIG, extra)


def with_base_config(base: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of a trainer with those of one that is based on it."""
    return merge_dicts(base, extra)


def merge_trainer_configs(
    defaults: Mapping[str, Any], given: Mapping[str, Any], *, allow_unknown: bool = False
) -> dict[str, Any]:
    """Return a deep copy of defaults with a user's dict merged into it, dicts inside included; the user's values win.

    An `exploration_config` or a `replay_buffer_config` whose `type` is another replaces the default.

    Args:
        defaults: All keys that there are.
        given: Values for some of them.
        allow_unknown: Whether other keys may be there. Some dicts inside may have them anyway: `OPEN_KEYS`.

    Raises:
        UnknownSettingError: A key isn't known.
    """
    merged = copy.deepcopy(dict(defaults))
    for key, value in given.items():
        if key not in merged and not allow_unknown:
            raise UnknownSettingError(f"there is no setting {key!r}{did_you_mean(str(key), merged)}")
        there = merged.get(key)
        if isinstance(there, Mapping) and isinstance(value, Mapping) and not is_new_type(there, value):
            merged[key] = merge_trainer_configs(there, value, allow_unknown=allow_unknown or key in OPEN_KEYS)
        else:
            merged[key] = copy.deepcopy(value) if isinstance(value, (dict, list, set)) else value
    return merged

"""Derive where rows of observations have what is seen, and the mask of actions: see `modules.masked_actor_critic`."""

from __future__ import annotations

import itertools
from typing import Any

from gymnasium import spaces

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.errors import ConfigError
from kernel_rllib.modules.masked_actor_critic import MaskedLayout
from kernel_rllib.spaces.flatten import flat_size

OBS, ACTION_MASK = "obs", "action_mask"
"""In observations: what is seen, and which actions may be taken."""


def masked_layout(config: AlgorithmConfig, observed: Any, action: Any) -> MaskedLayout:
    """Return where rows of observations have what is seen, and the mask.

    Args:
        config: The settings, to be named in errors.
        observed: The observation space.
        action: The action space.

    Raises:
        ConfigError: If actions are not those of a Discrete space from 0 on, or observations have no mask of them.
    """
    if not isinstance(action, spaces.Discrete):
        raise ConfigError(
            f"{config.title}: a tree has an edge for each action of a Discrete space, but the environment takes "
            f"{action}; take PPO or SAC for it"
        )
    if not isinstance(observed, spaces.Dict) or not {OBS, ACTION_MASK} <= set(observed.spaces):
        raise ConfigError(
            f"{config.title}: the environment has to observe a Dict of {OBS!r} and {ACTION_MASK!r}, with a 1 for each "
            f"action that may be taken, and it observes {observed}"
        )
    ends = [0, *itertools.accumulate(map(flat_size, observed.spaces.values()))]
    parts = dict(zip(observed.spaces, itertools.pairwise(ends), strict=True))
    mask, seen = parts[ACTION_MASK], observed.spaces[OBS]
    if mask[1] - mask[0] != action.n:
        raise ConfigError(
            f"{config.title}: {ACTION_MASK!r} has {mask[1] - mask[0]} flags, but there are {action.n} actions: give "
            "one for each"
        )
    is_image = isinstance(seen, spaces.Box) and seen.shape is not None and len(seen.shape) == 3
    return MaskedLayout(parts[OBS], mask, tuple(seen.shape or ()) if is_image else (parts[OBS][1] - parts[OBS][0],))

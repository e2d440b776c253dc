"""Derive the layout of a group's rows from its spaces: see `modules.group_q_network.GroupLayout`."""

from __future__ import annotations

import itertools
from typing import Any

from gymnasium import spaces

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.envs.groups import ENV_STATE
from kernel_rllib.errors import ConfigError
from kernel_rllib.modules.group_q_network import GroupLayout
from kernel_rllib.runners.agent_spaces import are_alike
from kernel_rllib.spaces.flatten import flat_size
from kernel_rllib.training.spaces import Spaces

OBS, ACTION_MASK = "obs", "action_mask"
"""In the observations of agents that are a Dict: what an agent sees, and which actions it may take."""


def group_layout(config: AlgorithmConfig, group: Spaces, observation: tuple[int, ...]) -> tuple[GroupLayout, int]:
    """Return where rows of a group have what, and how many actions each agent has.

    Args:
        config: The settings.
        group: The spaces of the group.
        observation: The shape of one row of observations, as connectors give it.

    Raises:
        ConfigError: If these are no spaces of a group, its agents have different ones, or connectors change rows.
    """
    if not isinstance(group.observation, spaces.Tuple) or not isinstance(group.action, spaces.Tuple):
        raise ConfigError(
            f"{config.title} learns for groups of agents, whose spaces are Tuples, but here observations are "
            f"{group.observation} and actions {group.action}: return env.with_agent_groups({{'group': [agent, ...]}}) "
            "from what makes the environment"
        )
    first, actions = group.observation.spaces[0], group.action.spaces[0]
    if not isinstance(actions, spaces.Discrete):
        raise ConfigError(
            f"{config.title} learns a value for each action of a Discrete space, but agents take {actions}; take "
            "MADDPG or PPO for it"
        )
    for place, both in enumerate(zip(group.observation.spaces, group.action.spaces, strict=True)):
        if not all(are_alike(one, other) for one, other in zip(both, (first, actions), strict=True)):
            raise ConfigError(
                f"{config.title}: all agents of a group share one network, but member {place} has the spaces {both[0]} "
                f"and {both[1]}, and member 0 {first} and {actions}: pad them to the same ones, or make two groups"
            )
    layout = _layout(config, first, int(actions.n), len(group.action.spaces))
    if observation != (layout.agents * layout.width,) or config.observation_filter not in (None, "NoFilter"):
        raise ConfigError(
            f"{config.title}: rows of observations are {list(observation)} after connectors and filters, and must be "
            f"as the environment tells them, {[layout.agents * layout.width]}, with masks and states in them: leave "
            "out observation_filter and env_to_module_connector, and do that in the environment"
        )
    return layout, int(actions.n)


def _layout(config: AlgorithmConfig, observed: Any, actions: int, agents: int) -> GroupLayout:
    width = flat_size(observed)
    if not isinstance(observed, spaces.Dict) or OBS not in observed.spaces:
        return GroupLayout(agents, width, (0, width))
    ends = [0, *itertools.accumulate(map(flat_size, observed.spaces.values()))]
    parts = dict(zip(observed.spaces, itertools.pairwise(ends), strict=True))
    mask = parts.get(ACTION_MASK)
    if mask is not None and mask[1] - mask[0] != actions:
        raise ConfigError(
            f"{config.title}: {ACTION_MASK!r} of observations has {mask[1] - mask[0]} flags, but agents have {actions} "
            "actions: give one for each"
        )
    return GroupLayout(agents, width, parts[OBS], mask, parts.get(ENV_STATE))

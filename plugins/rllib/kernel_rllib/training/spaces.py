"""Find the observation space and the action space of an environment, before an algorithm is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gymnasium import Space

from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.registry import EnvMaker
from kernel_rllib.envs.spaces_of import space_of


@dataclass(frozen=True)
class Spaces:
    """The spaces of one environment.

    Attributes:
        observation: The observation space.
        action: The action space.
    """

    observation: Space[Any]
    action: Space[Any]


def spaces_of(
    maker: EnvMaker,
    env_config: Mapping[str, Any],
    observation: Space[Any] | None,
    action: Space[Any] | None,
    look: Callable[[Any], None] = lambda env: None,
) -> Spaces:
    """Return the spaces that are given, and ask an environment for those that are not.

    Args:
        maker: The maker of the environment, which is closed again.
        env_config: The settings that the environment is given.
        observation: The space of observations, or None.
        action: The space of actions, or None.
        look: The function that is called with the environment, where one is made.

    Raises:
        EnvError: If the environment can't be made, or has no spaces.
    """
    if observation is not None and action is not None:
        return Spaces(observation, action)
    env = maker(EnvContext(env_config))
    try:
        found = Spaces(observation or space_of(env, "observation_space"), action or space_of(env, "action_space"))
        look(env)
        return found
    finally:
        close = getattr(env, "close", None)
        if close is not None:
            close()

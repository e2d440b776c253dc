"""A look at the environment where an algorithm is built: what is wrong with it is said before anything is trained."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.envs.checking import check_first_step
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.errors import EnvError, SpaceError

_log = logging.getLogger("kernel.rllib")


def check_env_of(config: AlgorithmConfig, env: Any, validate: Callable[[Any, EnvContext], None]) -> None:
    """Begin one episode of an environment, do one action, and let the algorithm look at it.

    It is an environment of its own, made to be asked for its spaces: those that are trained in begin as they would
    without this.

    Args:
        config: The settings; with `disable_env_checking` only the algorithm looks.
        env: The environment.
        validate: The function that raises an error for an environment that the algorithm can't take:
            `Algorithm.validate_env`.

    Raises:
        EnvError: If a method returned what it must not, or raised.
        SpaceError: If what it returned is not of the space that the environment has.
    """
    if not config.disable_env_checking:
        try:
            check_first_step(env, observation_space=config.observation_space, action_space=config.action_space)
        except (EnvError, SpaceError) as error:
            raised = error.__cause__
            if raised is None or not config.restart_failed_sub_environments:
                raise type(error)(
                    f"{error}. This was found before training: disable_env_checking=True leaves that look out"
                ) from raised
            _log.warning("the environment failed before training, and will be made anew where it does: %s", error)
    validate(env, EnvContext(config.env_config))

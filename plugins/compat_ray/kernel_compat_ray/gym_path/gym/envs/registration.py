"""Names of environments: those of gymnasium, older names for the same rules, and those that programs register."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

import gymnasium
from gymnasium.envs.registration import registry

from ..core import Env, FromGymnasium, TimeLimit

RENAMED = {"CliffWalking-v0": "CliffWalking-v1", "Pendulum-v0": "Pendulum-v1", "Taxi-v3": "Taxi-v4"}
"""Maps names that gymnasium no longer has to the present names for the same rules."""


def make(id: str, **kwargs: Any) -> Any:
    """Return a new environment of this name, with the methods that gym had.

    Args:
        id: The name.
        kwargs: What the environment is made with.

    Raises:
        NameNotFound: If gymnasium has none of this name.
    """
    found = id if id in registry else RENAMED.get(id, id)
    if found not in registry and importlib.util.find_spec("ale_py") is not None:
        gymnasium.register_envs(importlib.import_module("ale_py"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is out of date", category=DeprecationWarning)
        try:
            made = gymnasium.make(found, **{"disable_env_checker": True, **kwargs})
        except gymnasium.error.NameNotFound as error:
            raise gymnasium.error.NameNotFound(
                f"{error} Games of Atari come with a library of their own: pip install ale-py"
            ) from None
    inner: Any = made.unwrapped
    if not isinstance(inner, Env):
        return FromGymnasium(made)
    limit = registry[found].max_episode_steps
    return TimeLimit(inner, limit) if limit else inner


def register(id: str, entry_point: Any = None, **kwargs: Any) -> None:
    """Give an environment a name, for `make` in this process."""
    gymnasium.register(id=id, entry_point=entry_point, **kwargs)


def spec(id: str) -> Any:
    """Return what is registered under a name."""
    return gymnasium.spec(id if id in registry else RENAMED.get(id, id))

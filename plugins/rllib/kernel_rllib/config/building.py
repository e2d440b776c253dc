"""Functions that the layer above fills in: they build an algorithm from a config, and make an environment for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel_rllib.errors import ConfigError

_builder: Callable[..., Any] | None = None
_resolver: Callable[[str], Any] | None = None
_env_maker: Callable[[Any], Any] | None = None


def set_builder(build: Callable[..., Any], resolve: Callable[[str], Any]) -> None:
    """Say how algorithms are built.

    Args:
        build: Called as (class or None, config, logger_creator), returns the algorithm.
        resolve: Returns the class of algorithms that is registered under a name.
    """
    global _builder, _resolver
    _builder, _resolver = build, resolve


def set_env_maker(make: Callable[[Any], Any]) -> None:
    """Say how the environment of a config is made, given the config."""
    global _env_maker
    _env_maker = make


def resolved(algorithm: Any) -> Any:
    """Return the class for a name of an algorithm, where there are algorithms, and anything else as it is."""
    return _resolver(algorithm) if isinstance(algorithm, str) and _resolver is not None else algorithm


def built(config: Any, logger_creator: Any) -> Any:
    """Return an algorithm that is built from a config.

    Raises:
        ConfigError: If it is a config of no algorithm.
    """
    if config.algo_class is None:
        raise ConfigError(
            f"{config.title} names no algorithm, so nothing can be built of it: take the config of one, such as "
            "PPOConfig()"
        )
    if _builder is None:
        raise ConfigError(
            f"{config.title} can't be built: no algorithms are loaded; import kernel_rllib.algorithms first"
        )
    return _builder(resolved(config.algo_class), config, logger_creator)


def env_of(config: Any) -> Any:
    """Return a new environment of a config: by name from gymnasium, or from a class or function."""
    if _env_maker is not None:
        return _env_maker(config)
    if isinstance(config.env, str):
        import gymnasium

        return gymnasium.make(config.env, **config.env_config)
    return config.env(config.env_config)

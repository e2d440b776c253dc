"""Environments of either generation of gym's interface, with the methods of today.

The older one: `reset()` returns the observation alone and takes no seed, `seed(number)` is a method of its own, and
`step()` returns (observation, reward, done, info), where `info["TimeLimit.truncated"]` tells that a time limit was
the end. Which one an environment follows is found out once for each class, from what it returns.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
from gymnasium.utils import seeding

from kernel_rllib.envs.lanes import name_of
from kernel_rllib.errors import EnvError, SpaceError

TRUNCATED_KEY = "TimeLimit.truncated"
Reset = Callable[[int | None], tuple[Any, dict[str, Any]]]


class Generations:
    """Remembers how environments of each class reset and step, for all lanes of one vector."""

    def __init__(self) -> None:
        self._takes_seed: dict[tuple[type, ...], bool] = {}
        self._returns_info: dict[tuple[type, ...], bool] = {}

    def reset_of(self, env: Any) -> Reset:
        """Return a function of a seed (or None) that resets this environment and returns (observation, info)."""
        key = tuple(type(layer) for layer in _layers(env))
        if key not in self._takes_seed:
            self._takes_seed[key] = all(_takes_seed(layer) for layer in _layers(env))
        takes_seed = self._takes_seed[key]
        returns_info = self._returns_info

        def reset(seed: int | None) -> tuple[Any, dict[str, Any]]:
            if seed is None:
                returned = env.reset()
            elif takes_seed:
                returned = env.reset(seed=seed)
            else:
                _seed(env, seed)
                returned = env.reset()
            if key not in returns_info:
                returns_info[key] = _has_info(returned, getattr(env, "observation_space", None))
            if not returns_info[key]:
                return returned, {}
            try:
                obs, info = returned
            except (TypeError, ValueError):
                raise EnvError(
                    f"{name_of(env)}.reset() returned {returned!r}, but (observation, info) before: return both always"
                ) from None
            return obs, info

        return reset


def five_values(returned: Any, owner: str) -> tuple[Any, Any, Any, Any, Any]:
    """Return (observation, reward, terminated, truncated, info) of what `step()` of either generation returned.

    Raises EnvError where it is neither of them.
    """
    if isinstance(returned, (tuple, list)) and len(returned) == 5:
        return tuple(returned)  # type: ignore[return-value]
    if isinstance(returned, (tuple, list)) and len(returned) == 4:
        obs, reward, done, info = returned
        truncated = bool(done) and isinstance(info, dict) and bool(info.get(TRUNCATED_KEY, False))
        return obs, reward, bool(done) and not truncated, truncated, info
    found = f"{len(returned)} values" if isinstance(returned, (tuple, list)) else f"{returned!r}"
    raise EnvError(
        f"{owner}.step() returned {found}: return (observation, reward, terminated, truncated, info), "
        "or (observation, reward, done, info) as in old gym"
    )


def modern_space(space: Any) -> Any:
    """Return a space of old gym as the same one of gymnasium; spaces of gymnasium, and what is none, as they are."""
    if isinstance(space, gymnasium.Space) or not type(space).__module__.startswith("gym."):
        return space
    kind = type(space).__name__
    if kind == "Box":
        return gymnasium.spaces.Box(space.low, space.high, space.shape, space.dtype)
    if kind == "Discrete":
        return gymnasium.spaces.Discrete(int(space.n), start=int(getattr(space, "start", 0)))
    if kind == "MultiDiscrete":
        return gymnasium.spaces.MultiDiscrete(space.nvec)
    if kind == "MultiBinary":
        return gymnasium.spaces.MultiBinary(space.n)
    if kind == "Tuple":
        return gymnasium.spaces.Tuple([modern_space(part) for part in space.spaces])
    if kind == "Dict":
        return gymnasium.spaces.Dict({key: modern_space(part) for key, part in space.spaces.items()})
    raise SpaceError(f"{space!r} is a space of old gym that gymnasium has no space for: use one of gymnasium.spaces")


def _layers(env: Any) -> Iterator[Any]:
    """Yield an environment and those that it wraps, outermost first."""
    while env is not None:
        yield env
        env = vars(env).get("env") if hasattr(env, "__dict__") else None


def _takes_seed(env: Any) -> bool:
    try:
        parameters = inspect.signature(env.reset).parameters
    except (TypeError, ValueError):
        return False
    return "seed" in parameters or any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())


def _seed(env: Any, seed: int) -> None:
    """Seed an environment whose `reset` takes no seed, by whatever way there is."""
    if callable(getattr(env, "seed", None)):
        env.seed(seed)
    elif isinstance(env, gymnasium.Env):
        env.unwrapped.np_random = seeding.np_random(seed)[0]


def _has_info(returned: Any, space: Any) -> bool:
    """Return whether what `reset` returned is (observation, info), and not an observation that is a pair itself."""
    if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], dict)):
        return False
    is_pair = isinstance(space, gymnasium.spaces.Tuple) and len(space.spaces) == 2
    return not is_pair or space.contains(returned[0]) or not space.contains(returned)

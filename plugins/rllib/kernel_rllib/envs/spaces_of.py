"""The spaces that an environment says it has."""

from __future__ import annotations

from typing import Any

from gymnasium import Space

from kernel_rllib.envs.lanes import name_of
from kernel_rllib.envs.old_gym import modern_space
from kernel_rllib.errors import EnvError
from kernel_rllib.spaces import nested


def space_of(env: Any, name: str) -> Space[Any]:
    """Return the `observation_space` or `action_space` of an environment. Raises EnvError where it has none."""
    space = modern_space(getattr(env, name, None))
    if space is None:
        raise EnvError(
            f"{name_of(env)} has no {name}: set it in __init__, or as an attribute of the class, to a space of "
            f"gymnasium.spaces, or give {name} in the config"
        )
    if not isinstance(space, Space):
        raise EnvError(
            f"{name_of(env)}.{name} is {space!r} ({type(space).__name__}): it must be a space of gymnasium.spaces"
        )
    return space


def same_form(one: Space[Any], other: Space[Any]) -> bool:
    """Return whether values of two spaces are kept and seen in the same form; bounds of boxes may differ."""
    if one == other:
        return True
    if type(one) is not type(other):
        return False
    structs = nested.empty(one, 1), nested.empty(other, 1)
    leaves = [[(leaf.shape, leaf.dtype) for leaf in nested.leaves(struct)] for struct in structs]
    return leaves[0] == leaves[1] and getattr(one, "n", None) == getattr(other, "n", None)

"""Actions that are all alike: what `action_space.sample()` draws, from the noise of lanes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from scipy.special import gammaincinv, ndtri

from kernel_rllib.arrays import Array
from kernel_rllib.distributions.distribution import Noise
from kernel_rllib.exploration.epsilon_greedy import index_of
from kernel_rllib.nn.ops import Ops
from kernel_rllib.spaces.action_rows import row_width
from kernel_rllib.spaces.simplex import Simplex

LEAST = 2.0**-25
"""In place of the uniform number 0, where infinity would be drawn for it."""


class UniformActions:
    """Draws actions from their space, whatever a module puts out; none is better than others."""

    keeps: tuple[str, ...] = ()

    def __init__(self, space: Space[Any]) -> None:
        """Draw from a space.

        Raises:
            SpaceError: If it is none of actions.
        """
        self._space = space
        self.noise = Noise("uniform", row_width(space))

    def choose(self, nn: Ops, outputs: Mapping[str, Any], noise: Array, timestep: int) -> Array:
        """Return rows of actions, as environments take them: no bounds are to be applied."""
        return rows_drawn(self._space, noise)

    def best(self, nn: Ops, outputs: Mapping[str, Any]) -> Array:
        """Raise NotImplementedError, as there is no best action."""
        raise NotImplementedError("actions that are all alike have no best one")

    def recorded(self, nn: Ops, chosen: Mapping[str, Array]) -> dict[str, Array]:
        """Return no further columns."""
        return {}


def rows_drawn(space: Space[Any], uniforms: Array) -> Array:
    """Return rows of actions of a space for uniform numbers [L, width].

    Numbers between two bounds are uniform; beyond one bound they are exponential, and without any normal, as gymnasium
    has it.

    Args:
        space: The space of actions.
        uniforms: From 0 (included) to 1 (not included).
    """
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        children = list(space.spaces.values()) if isinstance(space, spaces.Dict) else list(space.spaces)
        parts, start = [], 0
        for child in children:
            end = start + row_width(child)
            parts.append(rows_drawn(child, uniforms[:, start:end]).reshape(len(uniforms), -1))
            start = end
        return np.concatenate(parts, axis=1, dtype=np.float32)
    if isinstance(space, spaces.Discrete):
        return index_of(uniforms[:, 0], int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        return index_of(uniforms, space.nvec.ravel())  # type: ignore[arg-type]
    if isinstance(space, Simplex):
        gammas = gammaincinv(space.concentration, uniforms.reshape(len(uniforms), -1, space.shape[-1]) + LEAST)
        shares: Array = (gammas / gammas.sum(axis=2, keepdims=True)).reshape(uniforms.shape).astype(np.float32)
        return shares
    return _of_box(space, uniforms) if isinstance(space, spaces.Box) else index_of(uniforms, 2)


def _of_box(space: spaces.Box, uniforms: Array) -> Array:
    low, high = space.low.ravel().astype(float), space.high.ravel().astype(float)
    above, below = np.isfinite(low), np.isfinite(high)
    if np.dtype(space.dtype).kind in "iu":
        whole: Array = np.minimum(np.floor(low + uniforms * (high - low + 1)), high).astype(np.int64)
        return whole
    both = above & below
    drawn = np.where(both, low, 0.0) + uniforms * np.where(both, high - low, 1.0)
    away = -np.log1p(-uniforms.astype(float))
    drawn = np.where(above & ~below, low + away, drawn)
    drawn = np.where(below & ~above, high - away, drawn)
    drawn = np.where(above | below, drawn, ndtri(np.maximum(uniforms, LEAST).astype(float)))
    found: Array = np.clip(drawn.astype(np.float32), space.low.ravel(), space.high.ravel())
    return found

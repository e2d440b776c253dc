"""Actions of boxes between the bounds that environments set and the range of about [-1, 1] that networks learn in."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.spaces.nested import Array, Struct


def normalised_space(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return the space in which actions are learnt that `ActionScaler.unsquash` makes actions of `space` of.

    Floats that are bounded on both sides are from -1 to 1 there; all else is as it was.
    """
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: normalised_space(child) for key, child in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([normalised_space(child) for child in space.spaces])
    if not isinstance(space, spaces.Box) or np.dtype(space.dtype).kind != "f":
        return space
    bounded = np.isfinite(space.low) & np.isfinite(space.high)
    low, high = np.where(bounded, -1, space.low), np.where(bounded, 1, space.high)
    return spaces.Box(low.astype(np.float32), high.astype(np.float32), space.shape, np.float32)


class ActionScaler:
    """Unsquashes, normalises and clips structs of actions; parts that are no Box, and bounds at infinity, stay.

    With a = low + (x + 1) (high - low) / 2, x is in [-1, 1] where a is in [low, high]. An element that is bounded on
    one side only is not scaled, but clipped.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        self._scale = _scale(space)

    def unsquash(self, actions: Struct) -> Struct:
        """Return actions that were learnt in [-1, 1] within the bounds of the environment; beyond are clipped.

        Boxes of whole numbers get the nearest ones; what is whole already was chosen among them, and is not scaled. The
        dtype is the space's.
        """
        return _applied(self._scale, "unsquash", actions)

    def normalise(self, actions: Struct) -> Struct:
        """Return actions of the environment, such as recorded ones, in [-1, 1], float32: the inverse of `unsquash`."""
        return _applied(self._scale, "normalise", actions)

    def clip(self, actions: Struct) -> Struct:
        """Return actions with what is beyond the bounds of the environment at the bounds. The dtype is the space's."""
        return _applied(self._scale, "clip", actions)


class _BoxScale:
    """The bounds of one box."""

    def __init__(self, space: spaces.Box) -> None:
        self._low = space.low
        self._high = space.high
        self._dtype = np.dtype(space.dtype)
        bounded = np.isfinite(space.low) & np.isfinite(space.high)
        low = np.where(bounded, space.low, 0).astype(np.float64)
        self._half = np.where(bounded, (np.where(bounded, space.high, 0).astype(np.float64) - low) / 2, 1.0)
        self._middle = np.where(bounded, low + self._half, 0.0)
        self._divisor = np.where(self._half == 0, 1.0, self._half)

    def unsquash(self, actions: Array) -> Array:
        if self._dtype.kind in "iu" and actions.dtype.kind in "iu":
            return self.clip(actions)
        return self.clip(self._middle + self._half * np.asarray(actions, np.float64))

    def normalise(self, actions: Array) -> Array:
        return ((np.asarray(actions, np.float64) - self._middle) / self._divisor).astype(np.float32)

    def clip(self, actions: Array) -> Array:
        clipped = np.clip(actions, self._low, self._high)
        if self._dtype.kind in "iu":
            clipped = np.rint(clipped)
        return clipped.astype(self._dtype, copy=False)


_Scale = Any
"""A _BoxScale, a dict or a list of scales, or None for what is not scaled."""


def _scale(space: spaces.Space[Any]) -> _Scale:
    if isinstance(space, spaces.Dict):
        return {key: _scale(child) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return [_scale(child) for child in space.spaces]
    return _BoxScale(space) if isinstance(space, spaces.Box) else None


def _applied(scale: _Scale, operation: str, actions: Struct) -> Struct:
    if isinstance(scale, dict):
        return {key: _applied(part, operation, actions[key]) for key, part in scale.items()}
    if isinstance(scale, list):
        return tuple(_applied(part, operation, value) for part, value in zip(scale, actions, strict=True))
    return actions if scale is None else getattr(scale, operation)(actions)

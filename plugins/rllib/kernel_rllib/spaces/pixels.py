"""Pictures made small: what RLlib does to the pixels of games before a network sees them.

Two families: `deepmind` gives gray pictures of 84 x 84 bytes (Mnih et al. 2015, "Human-level control through deep
reinforcement learning", methods), `rllib` crops and scales to `dim`, as numbers around zero. Stacking of frames is not
done here: it needs a memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.errors import SpaceError
from kernel_rllib.spaces.nested import Array

_LUMA = (np.float32(0.299), np.float32(0.587), np.float32(0.114))
"""Weights of red, green and blue in the brightness (ITU-R BT.601)."""
_ATARI_SHAPE = (210, 160, 3)
_ATARI_BORDER = 25
"""Rows at the top and the bottom of an Atari screen that show no game."""
_MIDDLE = 128.0
_PREFERENCES = ("deepmind", "rllib")


class PixelPreprocessor:
    """Makes float32 pictures [lanes, dim, dim, channels] of bytes [lanes, height, width, channels].

    options: `dim` (84, pixels), `grayscale` (False: colours stay), `zero_mean` (True: (x - 128) / 128, else x / 255).
    Screens of Atari games (210, 160, 3) lose the 25 rows above and below, which show no game.
    """

    def __init__(self, space: spaces.Space[Any], options: Mapping[str, Any] | None = None) -> None:
        self._shape = _picture_shape(space)
        options = options or {}
        self._dim = int(options.get("dim", 84))
        self._grayscale = bool(options.get("grayscale", False))
        self._zero_mean = bool(options.get("zero_mean", True))
        border = _ATARI_BORDER if self._shape == _ATARI_SHAPE else 0
        self._rows = slice(border, self._shape[0] - border)
        self._area = AreaResize(self._shape[0] - 2 * border, self._shape[1], self._dim, self._dim)
        self.shape = (self._dim, self._dim, 1 if self._grayscale else self._shape[2])

    @property
    def space(self) -> spaces.Box:
        """The space of the pictures."""
        low, high = (-1.0, 1.0) if self._zero_mean else (0.0, 1.0)
        return spaces.Box(low, high, self.shape, np.float32)

    def transform(self, pictures: Array) -> Array:
        """Return the pictures as the network takes them, of one lane or of many."""
        seen = pictures[..., self._rows, :, :].astype(np.float32)
        if self._grayscale:
            seen = seen.mean(axis=-1, keepdims=True)
        small = self._area.resized(seen)
        return (small - _MIDDLE) / _MIDDLE if self._zero_mean else small / 255.0


class GrayPreprocessor:
    """Makes gray bytes [lanes, dim, dim, 1] of bytes [lanes, height, width, channels], as DeepMind's agents see."""

    def __init__(self, space: spaces.Space[Any], dim: int = 84) -> None:
        height, width, self._channels = _picture_shape(space)
        self._area = AreaResize(height, width, dim, dim)
        self.shape = (dim, dim, 1)

    @property
    def space(self) -> spaces.Box:
        """The space of the pictures."""
        return spaces.Box(0, 255, self.shape, np.uint8)

    def transform(self, pictures: Array) -> Array:
        """Return the pictures small and gray, of one lane or of many."""
        gray = pictures[..., 0].astype(np.float32)
        if self._channels == 3:
            gray *= _LUMA[0]
            gray += pictures[..., 1] * _LUMA[1]
            gray += pictures[..., 2] * _LUMA[2]
            np.rint(gray, out=gray)
        return np.rint(self._area.resized(gray[..., None])).astype(np.uint8)


class MemoryPreprocessor:
    """Makes numbers around zero of the 128 bytes of memory of an Atari console: (x - 128) / 128."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.shape = space.shape or ()

    @property
    def space(self) -> spaces.Box:
        """The space of the numbers."""
        return spaces.Box(-1.0, 1.0, self.shape, np.float32)

    def transform(self, memory: Array) -> Array:
        """Return the memory as float32, of one lane or of many."""
        return (memory.astype(np.float32) - _MIDDLE) / _MIDDLE


class AreaResize:
    """Scales pictures by areas: each new pixel is the mean of what it covers, pixels at its edge by their share.

    Both axes are apart, so that a picture is scaled by two small matrices.
    """

    def __init__(self, height: int, width: int, new_height: int, new_width: int) -> None:
        self._from_rows = _shares(height, new_height)
        self._from_columns = _shares(width, new_width)

    def resized(self, pictures: Array) -> Array:
        """Return float32 pictures [..., height, width, channels] in the new size."""
        by_channel = np.ascontiguousarray(np.moveaxis(pictures, -1, -3))  # as matrices that BLAS takes
        small = self._from_rows @ by_channel @ self._from_columns.T
        return np.ascontiguousarray(np.moveaxis(small, -3, -1))


def pixel_preprocessor(
    space: spaces.Space[Any], preference: str = "deepmind", options: Mapping[str, Any] | None = None
) -> PixelPreprocessor | GrayPreprocessor | MemoryPreprocessor | None:
    """Return the preprocessor that shrinks pictures of this space, or None where it is no picture of bytes.

    preference: "deepmind" or "rllib", as `preprocessor_pref`. options: those of the model (`dim`, `grayscale`,
    `zero_mean`).
    """
    if preference not in _PREFERENCES:
        raise SpaceError(
            f"preprocessor_pref is {preference!r}, but must be one of {', '.join(map(repr, _PREFERENCES))}"
        )
    if not isinstance(space, spaces.Box) or space.dtype != np.uint8:
        return None
    if space.shape == (128,):
        return MemoryPreprocessor(space)
    if len(space.shape) != 3 or space.shape[-1] not in (1, 3):
        return None
    if preference == "deepmind":
        return GrayPreprocessor(space, int((options or {}).get("dim", 84)))
    return PixelPreprocessor(space, options)


def _picture_shape(space: spaces.Space[Any]) -> tuple[int, int, int]:
    if not isinstance(space, spaces.Box) or len(space.shape) != 3:
        raise SpaceError(f"{space} is no space of pictures: they are a Box of shape (height, width, channels)")
    height, width, channels = space.shape
    return height, width, channels


def _shares(size: int, new_size: int) -> Array:
    """Return the matrix [new_size, size] of how much of each new pixel each old one is; its rows add up to 1.

    To make a picture larger it takes the nearest pixels by the same areas.
    """
    edges = np.arange(new_size + 1) * (size / new_size)
    old = np.arange(size)
    overlap = np.minimum(edges[1:, None], old + 1) - np.maximum(edges[:-1, None], old)
    shares = np.clip(overlap, 0.0, None)
    matrix: Array = (shares / shares.sum(axis=1, keepdims=True)).astype(np.float32)
    return matrix

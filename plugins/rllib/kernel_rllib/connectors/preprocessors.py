"""Preprocessors turn observations of any space into rows of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box

from kernel_rllib.arrays import Array
from kernel_rllib.connectors.env_to_module import BatchPreprocessor
from kernel_rllib.errors import SpaceError
from kernel_rllib.spaces import nested
from kernel_rllib.spaces.flatten import Flattener, lead_axes
from kernel_rllib.spaces.nested import Struct
from kernel_rllib.spaces.pixels import pixel_preprocessor
from kernel_rllib.spaces.preprocessors import own_preprocessor


class FlatPreprocessor:
    """Makes flat rows of float32, with one-hot categories."""

    def __init__(self, space: Space[Any]) -> None:
        """Take observations of this space. Raises SpaceError if it has no fixed size."""
        self._flattener = Flattener(space)
        self.shape: tuple[int, ...] = (self._flattener.size,)
        self.dtype: np.dtype[Any] = np.dtype(np.float32)

    def rows(self, observations: Struct) -> Array:
        """Return rows [..., size]."""
        return self._flattener.rows(observations)


class ImagePreprocessor:
    """Leaves images as they are, bytes too: the module makes numbers of them."""

    def __init__(self, space: Space[Any]) -> None:
        """Take observations of this space: a Box [height, width, channels]."""
        self.shape: tuple[int, ...] = tuple(space.shape or ())
        self.dtype: np.dtype[Any] = np.dtype(np.uint8 if space.dtype == np.uint8 else np.float32)

    def rows(self, observations: Struct) -> Array:
        """Return images [..., *shape]."""
        images: Array = np.asarray(observations).astype(self.dtype, copy=False)
        return images


class PicturePreprocessor:
    """Makes small pictures of large ones."""

    def __init__(self, pixels: Any) -> None:
        """Make pictures small by what `spaces.pixels` made."""
        self._pixels = pixels
        self.shape: tuple[int, ...] = tuple(pixels.space.shape)
        self.dtype: np.dtype[Any] = np.dtype(pixels.space.dtype)

    def rows(self, observations: Struct) -> Array:
        """Return pictures [..., *shape]."""
        if observations.ndim == len(self.shape):
            one: Array = self._pixels.transform(observations[None])[0]
            return one
        many: Array = self._pixels.transform(observations)
        return many


class OwnPreprocessor:
    """Preprocesses observations by an object of the user's own class, one at a time."""

    def __init__(self, made: Any, space: Space[Any]) -> None:
        """Take the object, and the space of what it transforms."""
        self._made, self._space = made, space
        whole = math.prod(made.shape)
        self.shape: tuple[int, ...] = made.shape if len(made.shape) == 3 else (whole,)
        given = getattr(getattr(made, "observation_space", None), "dtype", None)
        self.dtype: np.dtype[Any] = np.dtype(np.uint8 if given == np.uint8 else np.float32)

    def rows(self, observations: Struct) -> Array:
        """Return rows [..., *shape]. Raises SpaceError if the object gives another shape than it said."""
        if not lead_axes(self._space, observations):
            one: Array = self.rows(nested.mapped(lambda leaf: np.asarray(leaf)[None], observations))[0]
            return one
        rows = [self._transformed(each) for each in nested.unstack(self._space, observations)]
        return np.stack(rows).reshape(len(rows), *self.shape)

    def _transformed(self, observation: Any) -> Array:
        found = np.asarray(self._made.transform(observation), self.dtype)
        if found.shape != self._made.shape:
            name = type(self._made).__name__
            raise SpaceError(
                f"{name}.transform() returned the shape {list(found.shape)}, but {name}.shape is "
                f"{list(self._made.shape)}; return arrays of this shape, or another one from _init_shape"
            )
        return found


def preprocessor_of(space: Space[Any], preference: str | None, options: Mapping[str, Any]) -> BatchPreprocessor:
    """Return the preprocessor of an observation space.

    Args:
        space: The space of observations.
        preference: The way in which screens of Atari games are made small: `"deepmind"`, `"rllib"`, or None.
        options: Options of the model: `custom_preprocessor`, and how large screens become.

    Raises:
        ConfigError: If `custom_preprocessor` is none.
    """
    own = own_preprocessor(space, options)
    if own is not None:
        return OwnPreprocessor(own, space)
    if preference is not None and space.shape in _OF_ATARI:
        small = pixel_preprocessor(space, preference, options)
        if small is not None:
            return PicturePreprocessor(small)
    return ImagePreprocessor(space) if is_image(space) else FlatPreprocessor(space)


def is_image(space: Space[Any]) -> bool:
    """Return whether a space is one of images: a Box of three axes, height, width and channels."""
    return isinstance(space, Box) and len(space.shape) == 3


_OF_ATARI = ((210, 160, 3), (128,))
"""The shapes of what Atari games show: screens, and the memory of the console."""

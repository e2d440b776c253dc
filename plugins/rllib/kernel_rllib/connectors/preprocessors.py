"""Preprocessors: what makes rows of numbers of whatever is observed in a space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space

from kernel_rllib.arrays import Array
from kernel_rllib.connectors.env_to_module import Preprocessor
from kernel_rllib.spaces.flatten import Flattener
from kernel_rllib.spaces.nested import Struct
from kernel_rllib.spaces.pixels import pixel_preprocessor


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


def preprocessor_of(space: Space[Any], preference: str | None, options: Mapping[str, Any]) -> Preprocessor:
    """Return the preprocessor of an observation space.

    Args:
        space: What is observed.
        preference: How pictures are made small: `"deepmind"`, `"rllib"`, or None.
        options: Options of the model that say how large pictures become.
    """
    if preference is not None and (small := pixel_preprocessor(space, preference, options)) is not None:
        return PicturePreprocessor(small)
    return FlatPreprocessor(space)

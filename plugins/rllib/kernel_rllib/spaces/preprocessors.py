"""Preprocessors of single observations, as the first generation has them: one-hot, flat, small pixels, or nothing.

`get_preprocessor(space)` chooses the class, `get_preprocessor(space)(space).transform(observation)` applies it. Users
derive their own from `Preprocessor`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.errors import ConfigError, SpaceError
from kernel_rllib.given_names import GivenNames
from kernel_rllib.spaces import nested
from kernel_rllib.spaces.encode import Encoder
from kernel_rllib.spaces.flatten import Flattener
from kernel_rllib.spaces.nested import Array
from kernel_rllib.spaces.pixels import MemoryPreprocessor, PixelPreprocessor
from kernel_rllib.spaces.repeated import Repeated

_ATARI_SHAPE = (210, 160, 3)
_ATARI_MEMORY_SHAPE = (128,)


class Preprocessor:
    """Turns observations of a space into arrays of `shape`. Derive from it, and define `_init_shape` and `transform`.

    options: those of the model (`dim`, `grayscale`, `zero_mean`, or what a custom one understands).
    """

    def __init__(self, obs_space: spaces.Space[Any], options: Mapping[str, Any] | None = None) -> None:
        self._obs_space = obs_space
        self._options = dict(options or {})
        self._encoder = Encoder(obs_space, type(self).__name__, verb="got")
        self.shape: tuple[int, ...] = tuple(self._init_shape(obs_space, self._options))

    def _init_shape(self, obs_space: spaces.Space[Any], options: dict[str, Any]) -> tuple[int, ...]:
        """Return the shape of what `transform` returns."""
        raise NotImplementedError(f"{type(self).__name__} has no _init_shape(obs_space, options): define it")

    def transform(self, observation: Any) -> Array:
        """Return an observation as the model takes it."""
        raise NotImplementedError(f"{type(self).__name__} has no transform(observation): define it")

    def write(self, observation: Any, array: Array, offset: int) -> None:
        """Write an observation, flat, into a row of numbers from `offset` on."""
        array[offset : offset + self.size] = np.ravel(self.transform(observation))

    def check_shape(self, observation: Any) -> None:
        """Raise SpaceError for an observation that is not of the space."""
        self._encoder.one(observation, "transform")

    @property
    def size(self) -> int:
        """The number of numbers that an observation becomes."""
        return int(np.prod(self.shape))

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """The space of what `transform` returns; where that is flat, `original_space` is the environment's."""
        space = spaces.Box(-np.inf, np.inf, self.shape, np.float32)
        if isinstance(self, _Flattening):
            space.original_space = self._obs_space  # type: ignore[attr-defined]
        return space


class NoPreprocessor(Preprocessor):
    """Leaves numbers as they are."""

    def _init_shape(self, obs_space: spaces.Space[Any], options: dict[str, Any]) -> tuple[int, ...]:
        return obs_space.shape or ()

    def transform(self, observation: Any) -> Array:
        """Return the observation as an array of the space."""
        found: Array = self._encoder.one(observation, "transform")
        return found

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """The space of the environment."""
        return self._obs_space


class _Flattening(Preprocessor):
    """The base of preprocessors with flat rows."""

    def _init_shape(self, obs_space: spaces.Space[Any], options: dict[str, Any]) -> tuple[int, ...]:
        self._flattener = Flattener(obs_space)
        return (self._flattener.size,)

    def transform(self, observation: Any) -> Array:
        """Return the observation as one row, float32."""
        row = self._encoder.one(observation, "transform")
        flat: Array = self._flattener.rows(nested.mapped(lambda leaf: np.asarray(leaf)[None], row))[0]
        return flat


class OneHotPreprocessor(_Flattening):
    """Makes rows with a one where the index is, of Discrete and MultiDiscrete."""


class TupleFlatteningPreprocessor(_Flattening):
    """Puts the parts of a Tuple one after the other."""


class DictFlatteningPreprocessor(_Flattening):
    """Puts the parts of a Dict one after the other."""


class RepeatedValuesPreprocessor(_Flattening):
    """Puts the length of a list before its padded values."""


class GenericPixelPreprocessor(Preprocessor):
    """Makes screens of Atari games small; see `pixels.PixelPreprocessor`."""

    def _init_shape(self, obs_space: spaces.Space[Any], options: dict[str, Any]) -> tuple[int, ...]:
        self._pixels = PixelPreprocessor(obs_space, options)
        return self._pixels.shape

    def transform(self, observation: Any) -> Array:
        """Return the screen, float32 [dim, dim, channels]."""
        return self._pixels.transform(self._encoder.one(observation, "transform"))


class AtariRamPreprocessor(Preprocessor):
    """Makes numbers around zero of the memory of an Atari console."""

    def _init_shape(self, obs_space: spaces.Space[Any], options: dict[str, Any]) -> tuple[int, ...]:
        self._memory = MemoryPreprocessor(obs_space)
        return self._memory.shape

    def transform(self, observation: Any) -> Array:
        """Return the memory, float32 [128]."""
        return self._memory.transform(self._encoder.one(observation, "transform"))


def get_preprocessor(space: spaces.Space[Any]) -> type[Preprocessor]:
    """Return the class that preprocesses observations of a space. Raises SpaceError for spaces without a size."""
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        return OneHotPreprocessor
    if isinstance(space, spaces.Box) and space.shape == _ATARI_SHAPE:
        return GenericPixelPreprocessor
    if isinstance(space, spaces.Box) and space.shape == _ATARI_MEMORY_SHAPE and space.dtype == np.uint8:
        return AtariRamPreprocessor
    for kind, preprocessor in (
        (spaces.Tuple, TupleFlatteningPreprocessor),
        (spaces.Dict, DictFlatteningPreprocessor),
        (Repeated, RepeatedValuesPreprocessor),
    ):
        if isinstance(space, kind):
            Flattener(space)  # raises where a part has no fixed size
            return preprocessor
    if nested.is_array_space(space):
        return NoPreprocessor
    raise SpaceError(f"there is no preprocessor for {space}: derive one from Preprocessor, and register it")


_OWN = GivenNames("preprocessor", "custom_preprocessor", "register_custom_preprocessor")

register_preprocessor = _OWN.register
"""Gives a preprocessor a name, which `model={"custom_preprocessor": name}` takes."""

preprocessor_named = _OWN.named
"""Returns the preprocessor that a user names: by a registered name, by a dotted path, or as it is."""


def own_preprocessor(space: spaces.Space[Any], options: Mapping[str, Any]) -> Preprocessor | None:
    """Return the preprocessor of the user's own that options of the model name, or None where they name none.

    Args:
        space: The space of observations.
        options: `custom_preprocessor` is its class, registered name or dotted path. It is given the space and all
            options, `custom_model_config` as `custom_options` too.

    Raises:
        ConfigError: If none has the name that is given, or it is no preprocessor.
    """
    given = preprocessor_named(options.get("custom_preprocessor"))
    if given is None:
        return None
    name = getattr(given, "__name__", repr(given))
    if not isinstance(given, type) or not callable(getattr(given, "transform", None)):
        raise ConfigError(
            f"custom_preprocessor is {name}, which is no preprocessor; give a class that is derived from Preprocessor, "
            "and defines _init_shape(self, obs_space, options) and transform(self, observation)"
        )
    made: Any = given(space, {**options, "custom_options": dict(options.get("custom_model_config", {}))})
    shape = getattr(made, "shape", None)
    if not isinstance(shape, tuple) or not all(isinstance(size, (int, np.integer)) and size > 0 for size in shape):
        raise ConfigError(
            f"custom_preprocessor {name} has the shape {shape!r}, and a tuple of numbers from 1 on was expected; "
            "return it from _init_shape(self, obs_space, options), and call Preprocessor.__init__"
        )
    found: Preprocessor = made
    return found


def preprocessor_for(space: spaces.Space[Any], options: Mapping[str, Any] | None = None) -> Preprocessor:
    """Return what preprocesses observations of a space: the user's own where options name one, else the usual one.

    Raises:
        ConfigError: If the one that options name is none.
        SpaceError: If there is none for the space.
    """
    own = own_preprocessor(space, options or {})
    return get_preprocessor(space)(space, options) if own is None else own

"""Functions of the user's own as connectors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.connectors.env_to_module import ObservationConnector, Previous
from kernel_rllib.errors import ConfigError


class RowFunction(ObservationConnector):
    """Passes rows through a function of rows [L, ...], which must keep nothing from call to call."""

    def __init__(self, function: Callable[[Array], Any]) -> None:
        """Call this function."""
        self._function = function

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape that a row of zeros has afterwards."""
        probe = self._checked(np.zeros((1, *shape), np.float32))
        return tuple(probe.shape[1:])

    def dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return float32."""
        return np.dtype(np.float32)

    def __call__(self, rows: Array, previous: Previous | None) -> Array:
        """Return what the function gives."""
        return self._checked(rows)

    def _checked(self, rows: Array) -> Array:
        found = np.asarray(self._function(rows), np.float32)
        if found.shape[:1] != rows.shape[:1]:
            raise ConfigError(
                f"the connector {_name(self._function)} returned an array of shape {found.shape} for rows of shape "
                f"{rows.shape}: it gets the rows of all lanes at once, and must return one for each."
            )
        return found


class RowFilter(ObservationConnector):
    """A filter of the user's own: made with the shape of a row, called with one row at a time.

    It is asked with `update=False` where it takes that: what it learned by itself would differ from runner to runner.
    """

    def __init__(self, make: Callable[[tuple[int, ...]], Callable[..., Any]]) -> None:
        """Make the filter by this function, or class, of the shape of a row."""
        self._make = make
        self._filter: Callable[..., Any] | None = None

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the same shape, and make the filter for it."""
        made = self._make(shape)
        if not callable(made):
            raise ConfigError(
                f"observation_filter={_name(self._make)} returned {made!r} for the shape {shape}: it is called with "
                "the shape of an observation, and must return a function of one observation."
            )
        takes_update = "update" in inspect.signature(made).parameters
        self._filter = (lambda row: made(row, update=False)) if takes_update else made
        filtered = np.shape(self._filter(np.zeros(shape, np.float32)))
        if filtered != shape:
            raise ConfigError(
                f"observation_filter={_name(self._make)} makes an observation of shape {filtered} of one of shape "
                f"{shape}: a filter must keep the shape. What changes it is an env_to_module_connector."
            )
        return shape

    def dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return float32."""
        return np.dtype(np.float32)

    def __call__(self, rows: Array, previous: Previous | None) -> Array:
        """Return the filtered rows."""
        assert self._filter is not None, "EnvToModule asks for the shape first"
        return np.stack([np.asarray(self._filter(row), np.float32) for row in rows])


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", repr(function))

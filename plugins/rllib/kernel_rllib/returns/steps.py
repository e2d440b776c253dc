"""The arguments of this package's functions: arrays of one shape, and the ends of episodes in them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernel_rllib.errors import DataError

Floats = NDArray[np.floating[Any]]
"""Float32 or float64."""


class Ends(NamedTuple):
    """The ends of episodes in arrays [T, ...]."""

    alive: NDArray[np.bool_]
    """[T, ...]: the step did not terminate its episode, so the value after it counts."""
    linked: NDArray[np.bool_]
    """[T - 1, ...]: the next row is the next step of the same episode."""

    def weights(self, factor: float, dtype: np.dtype[Any]) -> Floats:
        """Return floats [T, ...]: the factor where the next row is the next step of the same episode, else 0."""
        weights = np.zeros(self.alive.shape, dtype)
        weights[:-1] = self.linked
        weights *= factor
        return weights


def align(
    terminateds: ArrayLike, truncateds: ArrayLike, valid: ArrayLike | None, **arrays: ArrayLike
) -> tuple[Ends, list[Floats]]:
    """Return where episodes end, and arrays as floats of the widest dtype among them (integers count as float32).

    A row that holds no step cuts the trace before it, as the end of the arrays does; the floats are 0 there.

    Args:
        terminateds: flags (bool, or 0 and 1): the environment came to an end of its own.
        truncateds: flags: the episode was cut from outside. Where both are set, `terminateds` counts.
        valid: flags, False in rows that hold no step; None if all do.
        arrays: numbers of one shape, with time as the first axis.

    Raises:
        DataError: two of them differ in shape, or have no axis of time.
    """
    found = [np.asarray(array) for array in arrays.values()]
    first, shape = next(iter(arrays)), found[0].shape
    if not shape:
        raise DataError(f"{first} is a single number: one array [time, lane] or [time] was expected")
    flags = {"terminateds": terminateds, "truncateds": truncateds} | ({} if valid is None else {"valid": valid})
    bools = [np.asarray(array, dtype=np.bool_) for array in flags.values()]
    dtype: np.dtype[Any] = np.dtype(np.float32)
    for name, array in zip([*arrays, *flags], [*found, *bools], strict=True):
        if array.shape != shape:
            raise DataError(
                f"{name} has the shape {list(array.shape)} and {first} has {list(shape)}: "
                "give arrays of one shape, [time, lane] or [time], with a row for each step"
            )
        if array.dtype != dtype and array.dtype.kind == "f":
            dtype = np.promote_types(dtype, array.dtype)
    floats = [array if array.dtype == dtype else array.astype(dtype) for array in found]
    linked = ~(bools[0] | bools[1])[:-1]
    if valid is not None:
        linked &= bools[2][:-1] & bools[2][1:]
        floats = [np.where(bools[2], array, dtype.type(0)) for array in floats]
    return Ends(~bools[0], linked), floats


def valid_rows(lengths: ArrayLike, time: int) -> NDArray[np.bool_]:
    """Return the flags [T, L] of which rows hold a step, if lane l holds `lengths[l]` of them and then padding.

    Raises:
        DataError: a length is negative or more than `time`.
    """
    counts = np.asarray(lengths)
    if counts.size and (counts.min() < 0 or counts.max() > time):
        raise DataError(f"lengths are {counts.min()} to {counts.max()}, but a lane has {time} rows: give 0 to {time}")
    return np.arange(time)[:, None] < counts

"""Values that are several numbers: arrays and lists, as those of `numpy.random.randn(3, 2)` and `choice(a, size=3)`.

They are drawn from `numpy.random`, which is seeded by the searcher while a configuration is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_tune.errors import SearchSpaceError

Shape = tuple[int, ...]


def shape_of(size: int | Sequence[int]) -> Shape:
    """Return the shape for a `size`, one length or several. Raises SearchSpaceError for other values."""
    shape = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    if any(isinstance(length, bool) or not isinstance(length, int) or length < 0 for length in shape):
        raise SearchSpaceError(f"size is {size!r}: it is a length, or a tuple of lengths")
    return shape  # type: ignore[return-value]


class NormalArray:
    """Draws an array of numbers of the standard normal distribution."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.__name__ = f"randn{shape}"

    def __call__(self) -> Any:
        """Return an array."""
        import numpy as np  # here: few search spaces need it

        return np.random.standard_normal(self.shape)


class UniformArray:
    """Draws an array of numbers between two bounds."""

    def __init__(self, lower: float, upper: float, shape: Shape) -> None:
        self.lower, self.upper, self.shape = lower, upper, shape
        self.__name__ = f"uniform({lower:g}, {upper:g}, size={shape})"

    def __call__(self) -> Any:
        """Return an array."""
        import numpy as np  # see above

        return np.random.uniform(self.lower, self.upper, self.shape)


class Choices:
    """Draws several of some values, each at most once unless `replace`. For several lengths it returns nested lists."""

    def __init__(self, values: Sequence[Any], shape: Shape, replace: bool, p: Sequence[float] | None) -> None:
        wanted = 1
        for length in shape:
            wanted *= length
        there = sum(bool(chance) for chance in p) if p is not None else len(values)
        if not replace and wanted > there:
            raise SearchSpaceError(
                f"choice is to take {wanted} different ones of {there} values: ask for fewer, or say replace=True"
            )
        self.values, self.shape, self.replace, self.p = values, shape, replace, p
        self.__name__ = f"choice(size={shape if len(shape) != 1 else shape[0]})"

    def __call__(self) -> Any:
        """Return a list."""
        import numpy as np  # see above

        chosen = np.random.choice(len(self.values), self.shape, self.replace, self.p)
        return self._values_at(chosen.tolist())

    def _values_at(self, numbers: Any) -> Any:
        if isinstance(numbers, list):
            return [self._values_at(each) for each in numbers]
        return self.values[numbers]

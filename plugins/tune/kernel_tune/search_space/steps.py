"""Equally spaced values, `first * step` to `last * step`, and their positions in the unit interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from kernel_tune.errors import SearchSpaceError


@dataclass(frozen=True)
class Steps:
    """Multiples of `step`, numbered from 0. With `log` the unit interval is divided by their logarithms.

    With `halves` a number stands for all values that are rounded to it (quantised floats), without for those that are
    rounded down to it (integers).
    """

    first: int
    last: int
    step: float
    log: bool = False
    halves: bool = False

    @staticmethod
    def between(lower: float, upper: float, step: float, log: bool, halves: bool) -> Steps:
        """Return the multiples of `step` from `lower` to `upper`, both included."""
        first, last = _inwards(lower / step, math.ceil), _inwards(upper / step, math.floor)
        if last < first:
            raise SearchSpaceError(
                f"there is no multiple of {step} from {lower} to {upper}: choose a smaller q or wider bounds"
            )
        return Steps(first, last, step, log, halves)

    def __len__(self) -> int:
        return self.last - self.first + 1

    def edge(self, number: int) -> float:
        """Return where in the unit interval the cell of a number begins; for `len(self)`, where the last one ends."""
        if not self.log:
            return number / len(self)
        low, high = self._log_bounds()
        return (math.log(self.first + number - self._shift) - low) / (high - low)

    def number_at(self, unit: float) -> int:
        """Return the number whose cell contains a point of the unit interval."""
        if self.log:
            low, high = self._log_bounds()
            number = math.floor(math.exp(low + unit * (high - low)) + self._shift) - self.first
        else:
            number = math.floor(unit * len(self))
        return min(max(number, 0), len(self) - 1)

    def value(self, number: int) -> float:
        """Return a value by its number, in its shortest decimal form: the third tenth is 0.3."""
        if isinstance(self.step, int):
            return (self.first + number) * self.step
        return float(Decimal(repr(self.step)) * (self.first + number))

    def number_of(self, value: float) -> int:
        """Return the number of the value that is nearest to this one."""
        return min(max(round(value / self.step) - self.first, 0), len(self) - 1)

    @property
    def _shift(self) -> float:
        return 0.5 if self.halves else 0.0

    def _log_bounds(self) -> tuple[float, float]:
        return math.log(self.first - self._shift), math.log(self.last + 1 - self._shift)


def _inwards(scaled: float, rounded: Callable[[float], int]) -> int:
    """Return a bound in steps. 0.3 / 0.1 is 3, although it is a little less in floating point."""
    nearest = round(scaled)
    return nearest if math.isclose(scaled, nearest) else rounded(scaled)

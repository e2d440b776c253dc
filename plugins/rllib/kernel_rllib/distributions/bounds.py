"""The bounds of a Box, for distributions that keep to them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from kernel_rllib.distributions.distribution import constant
from kernel_rllib.errors import SpaceError

if TYPE_CHECKING:
    from kernel_rllib.nn.ops import Array, Ops

LARGEST_BOUND = 1e30
"""A bound beyond it counts as none: spaces write the largest float for it."""


@dataclass(frozen=True)
class Bounds:
    """The lowest and highest number of each component, all of them finite.

    Raises:
        SpaceError: a bound is not finite, or not above the lower one.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.low) != len(self.high):
            raise SpaceError(f"{len(self.low)} low bounds and {len(self.high)} high ones: give as many of each")
        for component, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            if not -LARGEST_BOUND < low < high < LARGEST_BOUND:
                raise SpaceError(
                    f"component {component} is bounded by {low} and {high}: finite bounds, the lower one first, were "
                    "expected. Give the Box such bounds, or use the distribution 'gaussian', which needs none"
                )

    @property
    def size(self) -> int:
        """The number of components."""
        return len(self.low)

    @cached_property
    def widths(self) -> tuple[float, ...]:
        """The differences between upper and lower bounds."""
        return tuple(high - low for low, high in zip(self.low, self.high, strict=True))

    @cached_property
    def log_volume(self) -> float:
        """The sum of the logarithms of the widths: the entropy of the uniform distribution."""
        return math.fsum(math.log(width) for width in self.widths)

    def from_unit(self, nn: Ops, shares: Array) -> Array:
        """Return the numbers at 0 (low) to 1 (high) of the way; never outside, however they are rounded."""
        low, high = constant(nn, self.low, shares), constant(nn, self.high, shares)
        return nn.minimum(nn.maximum(low + shares * constant(nn, self.widths, shares), low), high)

    def to_unit(self, nn: Ops, actions: Array, like: Array) -> Array:
        """Return where between low (0) and high (1) numbers lie, in the dtype of another value."""
        return (actions - constant(nn, self.low, like)) / constant(nn, self.widths, like)

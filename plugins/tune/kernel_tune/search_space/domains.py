"""Domains: the possible values of a part of a configuration, and their probabilities.

Each domain maps the unit interval to its values (`from_unit`), equally likely parts of it to equally likely values, and
back (`to_unit`). Values are drawn by this mapping, and model-based searchers see values by it.
"""

from __future__ import annotations

import inspect
import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from kernel_tune.errors import SearchSpaceError
from kernel_tune.search_space.steps import Steps

if TYPE_CHECKING:
    import numpy as np

SMALLEST_UNIT = 1e-12
"""The distance from 0 and 1 that is kept when an unbounded domain is evaluated."""


class Domain:
    """The possible values of one part of a configuration."""

    @property
    def cells(self) -> int | None:
        """The number of values; None if they are continuous."""
        return None

    def from_unit(self, unit: float) -> Any:
        """Return the value at a point of the unit interval."""
        raise NotImplementedError

    def to_unit(self, value: Any) -> float:
        """Return the point of a value in the unit interval: the middle of its cell, if there are cells."""
        raise NotImplementedError

    def edge(self, number: int) -> float:
        """Return where in the unit interval a cell begins, or, for the number of cells, where the last one ends."""
        raise NotImplementedError

    def is_valid(self, value: Any) -> bool:
        """Return whether a value is one of the domain."""
        raise NotImplementedError

    def draw(self, generator: np.random.Generator) -> Any:
        """Draw a value."""
        return self.from_unit(generator.random())

    def sample(self, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        """Draw one value, or a list of `size` values if that is more than 1.

        `random_state` is a numpy Generator or a seed; without one it follows `numpy.random.seed`.
        """
        from kernel_tune.search_space.randomness import as_generator

        generator = as_generator(random_state)
        values = [self.draw(generator) for _ in range(size)]
        return values if size > 1 else values[0]

    @property
    def domain_str(self) -> str:
        """The domain as a readable text."""
        return repr(self)


@dataclass(frozen=True)
class Float(Domain):
    """Numbers from `lower` to `upper`, or multiples of `quantum` among them; with `log`, drawn by their logarithm."""

    lower: float
    upper: float
    log: bool = False
    quantum: float | None = None

    def __post_init__(self) -> None:
        _check_bounds(self.lower, self.upper, self.log)
        object.__setattr__(self, "lower", float(self.lower))
        object.__setattr__(self, "upper", float(self.upper))
        if self.quantum is not None:
            _check_quantum(self.quantum)
            object.__setattr__(self, "quantum", float(self.quantum))
            for which, bound in (("lower", self.lower), ("upper", self.upper)):
                scaled = bound / self.quantum
                if not math.isclose(scaled, round(scaled), abs_tol=1e-9):
                    raise SearchSpaceError(
                        f"the {which} bound {bound} is not a multiple of q={self.quantum}: move the bound, or change q"
                    )

    def uniform(self) -> Float:
        """Return the domain with equal probabilities for equal lengths."""
        return replace(self, log=False)

    def loguniform(self, base: float = 10) -> Float:
        """Return the domain with equal probabilities for equal ratios. `base` makes no difference."""
        return replace(self, log=True)

    def quantized(self, q: float) -> Float:
        """Return the domain with multiples of `q` only."""
        return replace(self, quantum=q)

    @cached_property
    def _steps(self) -> Steps | None:
        if self.quantum is None:
            return None
        return Steps.between(self.lower, self.upper, self.quantum, self.log, halves=True)

    @property
    def cells(self) -> int | None:
        return len(self._steps) if self._steps else None

    def edge(self, number: int) -> float:
        assert self._steps, "numbers that are not quantised have no cells"
        return self._steps.edge(number)

    def from_unit(self, unit: float) -> float:
        if self._steps:
            value = self._steps.value(self._steps.number_at(unit))
        elif self.log:
            value = self.lower * math.exp(unit * math.log(self.upper / self.lower))
        else:
            value = self.lower + unit * (self.upper - self.lower)
        return float(min(max(value, self.lower), self.upper))

    def to_unit(self, value: Any) -> float:
        value = min(max(float(value), self.lower), self.upper)
        if self._steps:
            return _middle(self._steps, self._steps.number_of(value))
        if self.log:
            return math.log(value / self.lower) / math.log(self.upper / self.lower)
        return (value - self.lower) / (self.upper - self.lower)

    def is_valid(self, value: Any) -> bool:
        return _is_number(value) and self.lower <= value <= self.upper


@dataclass(frozen=True)
class Normal(Domain):
    """Numbers of a normal distribution, rounded to multiples of `quantum` if that is given."""

    mean: float = 0.0
    sd: float = 1.0
    quantum: float | None = None

    def __post_init__(self) -> None:
        if not (_is_number(self.mean) and math.isfinite(self.mean)):
            raise SearchSpaceError(f"the mean is {self.mean!r}: it must be a number")
        if not (_is_number(self.sd) and 0 < self.sd < math.inf):
            raise SearchSpaceError(f"the standard deviation is {self.sd!r}: it must be a number above 0")
        if self.quantum is not None:
            _check_quantum(self.quantum)
            object.__setattr__(self, "quantum", float(self.quantum))

    def quantized(self, q: float) -> Normal:
        """Return the domain with multiples of `q` only."""
        return replace(self, quantum=q)

    @cached_property
    def _distribution(self) -> NormalDist:
        return NormalDist(self.mean, self.sd)

    def from_unit(self, unit: float) -> float:
        value = self._distribution.inv_cdf(min(max(unit, SMALLEST_UNIT), 1 - SMALLEST_UNIT))
        return float(value if self.quantum is None else Steps(0, 0, self.quantum).value(round(value / self.quantum)))

    def to_unit(self, value: Any) -> float:
        return min(max(self._distribution.cdf(float(value)), SMALLEST_UNIT), 1 - SMALLEST_UNIT)

    def is_valid(self, value: Any) -> bool:
        return _is_number(value)


@dataclass(frozen=True)
class Integer(Domain):
    """Integers from `lower` to below `upper`. With a `quantum` above 1, its multiples, `upper` included."""

    lower: int
    upper: int
    log: bool = False
    quantum: int = 1

    def __post_init__(self) -> None:
        for bound in (self.lower, self.upper):
            if not _is_number(bound) or bound != int(bound):
                raise SearchSpaceError(f"the bound {bound!r} is not an integer: use uniform for other numbers")
        object.__setattr__(self, "lower", int(self.lower))
        object.__setattr__(self, "upper", int(self.upper))
        _check_bounds(self.lower, self.upper, self.log)
        if self.quantum != int(self.quantum):
            raise SearchSpaceError(f"q is {self.quantum!r}: for integers it must be an integer")
        _check_quantum(self.quantum)
        object.__setattr__(self, "quantum", int(self.quantum))
        assert self._steps

    def uniform(self) -> Integer:
        """Return the domain with equal probabilities for all values."""
        return replace(self, log=False)

    def loguniform(self, base: float = 10) -> Integer:
        """Return the domain with equal probabilities for equal ratios. `base` makes no difference."""
        return replace(self, log=True)

    def quantized(self, q: int) -> Integer:
        """Return the domain with multiples of `q` only."""
        return replace(self, quantum=q)

    @cached_property
    def _steps(self) -> Steps:
        last = self.upper - 1 if self.quantum == 1 else self.upper
        return Steps.between(self.lower, last, self.quantum, self.log, halves=self.quantum != 1)

    @property
    def cells(self) -> int:
        return len(self._steps)

    def edge(self, number: int) -> float:
        return self._steps.edge(number)

    def from_unit(self, unit: float) -> int:
        return int(self._steps.value(self._steps.number_at(unit)))

    def to_unit(self, value: Any) -> float:
        return _middle(self._steps, self._steps.number_of(float(value)))

    def is_valid(self, value: Any) -> bool:
        last = self.upper - 1 if self.quantum == 1 else self.upper
        return _is_number(value) and value == int(value) and self.lower <= value <= last


class Categorical(Domain):
    """One of several values. `p` are their probabilities, by default equal."""

    def __init__(self, categories: Sequence[Any], p: Sequence[float] | None = None) -> None:
        self.categories = list(categories)
        if not self.categories:
            raise SearchSpaceError("there is nothing to choose from: give at least one value")
        self.p = [1 / len(self.categories)] * len(self.categories) if p is None else [float(x) for x in p]
        if len(self.p) != len(self.categories) or min(self.p) < 0 or not math.isclose(sum(self.p), 1, abs_tol=1e-6):
            raise SearchSpaceError(
                f"p is {p}: it must have {len(self.categories)} probabilities, one for each value, that add up to 1"
            )
        self._edges = [0.0]
        for probability in self.p:
            self._edges.append(self._edges[-1] + probability)

    def uniform(self) -> Categorical:
        """Return the domain with equal probabilities for all values."""
        return Categorical(self.categories)

    def grid(self) -> dict[str, list[Any]]:
        """Return the values as a grid."""
        return {"grid_search": list(self.categories)}

    def __len__(self) -> int:
        return len(self.categories)

    def __getitem__(self, index: int) -> Any:
        return self.categories[index]

    def __repr__(self) -> str:
        return f"Categorical({self.categories})"

    @property
    def cells(self) -> int:
        return len(self.categories)

    def edge(self, number: int) -> float:
        return self._edges[number]

    def number_at(self, unit: float) -> int:
        """Return the number of the value at a point of the unit interval."""
        number = min(bisect_right(self._edges, unit), len(self.categories)) - 1
        while self.p[number] == 0 and number > 0:
            number -= 1
        return number

    def number_of(self, value: Any) -> int | None:
        """Return the number of a value, or None if it is not one of the domain."""
        return next((n for n, category in enumerate(self.categories) if same(category, value)), None)

    def from_unit(self, unit: float) -> Any:
        return self.categories[self.number_at(unit)]

    def to_unit(self, value: Any) -> float:
        number = self.number_of(value)
        if number is None:
            raise SearchSpaceError(f"{value!r} is not one of the categories {self.categories}")
        return (self._edges[number] + self._edges[number + 1]) / 2

    def is_valid(self, value: Any) -> bool:
        return self.number_of(value) is not None


class Function(Domain):
    """The return value of a function, which takes nothing, or the other values of the configuration."""

    def __init__(self, func: Callable[..., Any]) -> None:
        if not callable(func):
            raise SearchSpaceError(f"sample_from takes a function, not {func!r}")
        self.func = func
        self.takes_spec = _takes_one_argument(func)

    def __repr__(self) -> str:
        return f"Function({getattr(self.func, '__name__', self.func)!r})"

    def call(self, spec: Any) -> Any:
        """Call the function, with the other values if it takes them."""
        return self.func(spec) if self.takes_spec else self.func()

    def sample(self, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        """Call the function `size` times. Its randomness is its own."""
        values = [self.call({} if config is None else config) for _ in range(size)]
        return values if size > 1 else values[0]

    def is_valid(self, value: Any) -> bool:
        return True


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, also if they are arrays or can't be compared. True and 1 differ."""
    if one is other:
        return True
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    try:
        equal = one == other
        return bool(equal.all() if hasattr(equal, "all") else equal)
    except Exception:
        return False


def _middle(steps: Steps, number: int) -> float:
    return (steps.edge(number) + steps.edge(number + 1)) / 2


def _is_number(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except (TypeError, ValueError):
        return False


def _check_quantum(quantum: float) -> None:
    if not (_is_number(quantum) and quantum > 0):
        raise SearchSpaceError(f"q is {quantum!r}: it must be a number above 0")


def _check_bounds(lower: float, upper: float, log: bool) -> None:
    for which, bound in (("lower", lower), ("upper", upper)):
        if not _is_number(bound):
            raise SearchSpaceError(f"the {which} bound is {bound!r}: it must be a finite number")
    if lower >= upper:
        hint = "swap them" if lower > upper else "write the value itself where there is nothing to choose"
        raise SearchSpaceError(f"the lower bound {lower} is not below the upper bound {upper}: {hint}")
    if log and lower <= 0:
        raise SearchSpaceError(
            f"the lower bound is {lower}: values that are drawn by their logarithm must be above 0"
            " (give the bounds themselves, not their logarithms)"
        )


def _takes_one_argument(func: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(func)
    except (TypeError, ValueError):
        return True
    for arguments in (("spec",), ()):
        try:
            signature.bind(*arguments)
            return bool(arguments)
        except TypeError:
            continue
    raise SearchSpaceError(f"{func!r} is called by sample_from with one argument or with none, and takes neither")

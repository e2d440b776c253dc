"""Choose the distribution of an action space. Spaces are known by the names of their classes: gymnasium's and gym's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kernel_rllib.distributions.beta import Beta
from kernel_rllib.distributions.bounds import LARGEST_BOUND, Bounds
from kernel_rllib.distributions.categorical import Categorical
from kernel_rllib.distributions.deterministic import Deterministic
from kernel_rllib.distributions.dirichlet import Dirichlet
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.distributions.gaussian import Gaussian
from kernel_rllib.distributions.gumbel_softmax import GumbelSoftmax
from kernel_rllib.distributions.multi_binary import MultiBinary
from kernel_rllib.distributions.multi_categorical import MultiCategorical
from kernel_rllib.distributions.product import Product
from kernel_rllib.distributions.squashed_gaussian import SquashedGaussian
from kernel_rllib.errors import SpaceError

BoxChoice = Literal["gaussian", "squashed_gaussian", "beta", "deterministic"]
DiscreteChoice = Literal["categorical", "gumbel_softmax"]

MOST_ENTRIES = 65_536
"""The largest range of an integer of a Box: each of its values gets a logit of its own."""


@dataclass(frozen=True)
class Choices:
    """Holds the choices among the distributions that a space could have.

    Raises:
        SpaceError: a choice is unknown.
    """

    box: BoxChoice = "gaussian"
    """For a Box of floats. `squashed_gaussian` and `beta` keep to its bounds, and need them; `deterministic` does
    so unless there are none."""
    discrete: DiscreteChoice = "categorical"
    """For a Discrete space. `gumbel_softmax` has a gradient, and actions [N, n] of parts that sum to 1."""
    free_log_std: bool = False
    """Standard deviations are parameters of the module that no observation changes: of gaussians only."""
    log_std_bounds: tuple[float, float] = (-20.0, 2.0)
    """The bounds to which the logarithms of standard deviations are clipped."""
    temperature: float = 1.0
    """Of `gumbel_softmax`."""
    straight_through: bool = False
    """Of `gumbel_softmax`: samples are exactly one-hot."""

    def __post_init__(self) -> None:
        for name, chosen, known in (("box", self.box, _BOXES), ("discrete", self.discrete, _DISCRETES)):
            if chosen not in known:
                raise SpaceError(f"{name}={chosen!r} is no distribution for such a space: give one of {sorted(known)}")
        if self.free_log_std and "gaussian" not in self.box:
            raise SpaceError(
                f"free_log_std is set, but {self.box!r} has no standard deviation: leave it out, or choose 'gaussian' "
                "or 'squashed_gaussian'"
            )
        if not self.log_std_bounds[0] < self.log_std_bounds[1]:
            raise SpaceError(f"log_std_bounds are {self.log_std_bounds}: give two numbers, the lower one first")
        if not self.temperature > 0:
            raise SpaceError(f"temperature is {self.temperature}: give a number above 0")


def for_space(
    action_space: Any,
    *,
    box: BoxChoice = "gaussian",
    discrete: DiscreteChoice = "categorical",
    free_log_std: bool = False,
    log_std_bounds: tuple[float, float] = (-20.0, 2.0),
    temperature: float = 1.0,
    straight_through: bool = False,
) -> Distribution:
    """Return the distribution of the actions of a space; its `parameter_size` is how wide a module's output must be.

    | space | distribution | actions |
    |---|---|---|
    | Discrete | categorical (or `discrete`) | int64 [N], from the space's `start` |
    | MultiDiscrete, Box of integers | one categorical a component | int64 [N, k] |
    | MultiBinary | one Bernoulli a component | int8 [N, k] |
    | Box of floats | `box` | float32 [N, d] |
    | Simplex | Dirichlet | float32 [N, d] |
    | Dict, Tuple, nested | the product of the parts, in the space's order | float32 [N, sum of the widths] |

    Components of a space of several dimensions are in C order. The arguments are the fields of `Choices`.

    Raises:
        SpaceError: no distribution is known for the space or for a part of it, or a choice does not fit it.
    """
    choices = Choices(box, discrete, free_log_std, log_std_bounds, temperature, straight_through)
    if free_log_std and _kind(action_space) != "Box":
        raise SpaceError(
            f"free_log_std is set, but the action space is {action_space}: it is for a Box alone. Leave it out"
        )
    leaves = _leaves(action_space, choices, "action_space")
    return Product(tuple(leaves)) if _kind(action_space) in ("Dict", "Tuple") else leaves[0]


def _leaves(space: Any, choices: Choices, where: str) -> list[Distribution]:
    kind = _kind(space)
    if kind in ("Dict", "Tuple"):
        if not len(space.spaces):
            raise SpaceError(f"{where} is an empty {kind}: give it at least one space, or leave it out")
        named = space.spaces.items() if isinstance(space.spaces, Mapping) else enumerate(space.spaces)
        return [leaf for name, part in named for leaf in _leaves(part, choices, f"{where}[{name!r}]")]
    if kind is None:
        raise SpaceError(
            f"{where} is {space!r}, of the class {type(space).__name__}, which no distribution of actions is known "
            f"for: {', '.join([*_MAKERS, 'Dict'])} and Tuple were expected. Change the environment's "
            "space by a wrapper, or give the module a distribution of your own"
        )
    try:
        return [_MAKERS[kind](space, choices)]
    except SpaceError as error:
        raise SpaceError(f"{where} is {space}: {error}") from None


def _kind(space: Any) -> str | None:
    names = [known.__name__ for known in type(space).__mro__]
    return next((name for name in names if name in _MAKERS or name in ("Dict", "Tuple")), None)


def _discrete(space: Any, choices: Choices) -> Distribution:
    return _DISCRETES[choices.discrete](space, choices)


def _multi_discrete(space: Any, choices: Choices) -> Distribution:
    sizes = np.asarray(space.nvec, np.int64)
    return _multi_categorical(sizes, np.broadcast_to(np.asarray(getattr(space, "start", 0), np.int64), sizes.shape))


def _multi_binary(space: Any, choices: Choices) -> Distribution:
    return MultiBinary(_size(space))


def _simplex(space: Any, choices: Choices) -> Distribution:
    if len(space.shape) != 1:
        raise SpaceError("a simplex of one dimension was expected: make a Tuple of several")
    return Dirichlet(int(space.shape[0]))


def _box(space: Any, choices: Choices) -> Distribution:
    if np.dtype(space.dtype).kind in "biu":
        low = np.asarray(space.low).astype(object).reshape(-1)  # Python's integers, whose difference can't overflow
        sizes = np.asarray(space.high).astype(object).reshape(-1) - low + 1
        if len(sizes) and max(sizes) > MOST_ENTRIES:
            raise SpaceError(
                f"an integer of this Box has {max(sizes)} values, each of which would get a logit, and "
                f"{MOST_ENTRIES} are the most. Give it narrower bounds, or make it a Box of floats and round in the "
                "environment"
            )
        return _multi_categorical(sizes, low)
    return _BOXES[choices.box](space, choices)


def _multi_categorical(sizes: Any, starts: Any) -> Distribution:
    counts = tuple(int(size) for size in sizes.reshape(-1))
    firsts = tuple(int(start) for start in starts.reshape(-1))
    if not counts:
        raise SpaceError("it has no components: one or more were expected")
    return MultiCategorical(counts, firsts if any(firsts) else ())


def _size(space: Any) -> int:
    size = int(math.prod(space.shape))
    if not size:
        raise SpaceError("it has no components: one or more were expected")
    return size


def _bounds(space: Any) -> Bounds:
    _size(space)
    low, high = (np.broadcast_to(np.asarray(bound, np.float64), space.shape) for bound in (space.low, space.high))
    return Bounds(tuple(low.reshape(-1).tolist()), tuple(high.reshape(-1).tolist()))


def _deterministic(space: Any, choices: Choices) -> Distribution:
    bounded = (np.abs(np.asarray([space.low, space.high], np.float64)) < LARGEST_BOUND).any()
    return Deterministic(_size(space), _bounds(space) if bounded else None)


_BOXES: dict[str, Callable[[Any, Choices], Distribution]] = {
    "gaussian": lambda space, choices: Gaussian(_size(space), choices.log_std_bounds, choices.free_log_std),
    "squashed_gaussian": lambda space, choices: SquashedGaussian(
        _bounds(space), choices.log_std_bounds, choices.free_log_std
    ),
    "beta": lambda space, choices: Beta(_bounds(space)),
    "deterministic": _deterministic,
}

_DISCRETES: dict[str, Callable[[Any, Choices], Distribution]] = {
    "categorical": lambda space, choices: Categorical(int(space.n), int(getattr(space, "start", 0))),
    "gumbel_softmax": lambda space, choices: GumbelSoftmax(int(space.n), choices.temperature, choices.straight_through),
}

_MAKERS: dict[str, Callable[[Any, Choices], Distribution]] = {
    "Discrete": _discrete,
    "MultiDiscrete": _multi_discrete,
    "MultiBinary": _multi_binary,
    "Box": _box,
    "Simplex": _simplex,
}

"""What users write into a search space."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kernel_tune.errors import SearchSpaceError
from kernel_tune.search_space.domains import Categorical, Float, Function, Integer, Normal


def uniform(lower: float = 0.0, upper: float | None = None) -> Float:
    """Choose a number from `lower` to `upper`, all equally likely.

    With one bound the other is 1, as numpy has it: `uniform(100)` is from 1 to 100.
    """
    if upper is None:
        lower, upper = sorted((lower, 1.0))
    return Float(lower, upper)


def quniform(lower: float, upper: float, q: float) -> Float:
    """Choose a multiple of `q` from `lower` to `upper`, both included, all equally likely."""
    return Float(lower, upper, quantum=q)


def loguniform(lower: float, upper: float, base: float = 10) -> Float:
    """Choose a number from `lower` to `upper`, each order of magnitude equally likely. The base makes no difference."""
    return Float(lower, upper, log=True)


def qloguniform(lower: float, upper: float, q: float, base: float = 10) -> Float:
    """Choose a multiple of `q` from `lower` to `upper`, both included, each order of magnitude equally likely."""
    return Float(lower, upper, log=True, quantum=q)


def randn(mean: float = 0.0, sd: float = 1.0) -> Normal:
    """Choose a number of the normal distribution with this mean and standard deviation."""
    return Normal(mean, sd)


def qrandn(mean: float, sd: float, q: float) -> Normal:
    """Choose a number of the normal distribution, rounded to a multiple of `q`."""
    return Normal(mean, sd, quantum=q)


def randint(lower: int, upper: int | None = None) -> Integer:
    """Choose an integer from `lower` to below `upper`; `randint(10)` is from 0, as numpy has it."""
    return Integer(0, lower) if upper is None else Integer(lower, upper)


def qrandint(lower: int, upper: int, q: int = 1) -> Integer:
    """Choose a multiple of `q` from `lower` to `upper`: `upper` is included, except with a `q` of 1."""
    return Integer(lower, upper, quantum=q)


def lograndint(lower: int, upper: int, base: float = 10) -> Integer:
    """Choose an integer from `lower` to below `upper`, each order of magnitude equally likely."""
    return Integer(lower, upper, log=True)


def qlograndint(lower: int, upper: int, q: int, base: float = 10) -> Integer:
    """Choose a multiple of `q` from `lower` to `upper`, each order of magnitude equally likely.

    `upper` is included, except with a `q` of 1.
    """
    return Integer(lower, upper, log=True, quantum=q)


def choice(categories: Sequence[Any] | int, p: Sequence[float] | None = None) -> Categorical:
    """Choose one of some values, with probabilities `p`, equally likely without; `choice(10)` is one of 0 to 9.

    A value may be a dict or list with domains of its own: they are chosen only if it is (a conditional space).
    """
    if isinstance(categories, int) and not isinstance(categories, bool):
        return Categorical(range(categories), p)
    if isinstance(categories, (str, bytes)) or not hasattr(categories, "__iter__"):
        raise SearchSpaceError(f"choice takes a list of values, not {categories!r}: write choice([{categories!r}])")
    return Categorical(list(categories), p)


def sample_from(func: Callable[..., Any]) -> Function:
    """Take what a function returns. It takes nothing, or one argument, what else was chosen.

    `spec.config.alpha`, `spec["config"]["alpha"]`, `spec["alpha"]` and `spec.alpha` are all the value of `alpha`, also
    if it is written further down, or comes from a function itself. What is drawn from `random` and `numpy.random`
    inside follows the seed of the searcher.
    """
    return Function(func)


def grid_search(values: Iterable[Any]) -> dict[str, list[Any]]:
    """Try every one of these values, and every combination with other grids."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise SearchSpaceError(f"grid_search takes a list of values, not {values!r}: write grid_search([{values!r}])")
    values = list(values)
    if not values:
        raise SearchSpaceError("grid_search has no values: give at least one")
    return {"grid_search": values}

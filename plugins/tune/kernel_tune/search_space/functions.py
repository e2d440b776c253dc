"""The functions that users write into a search space."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kernel_runs.arguments import refuse_unknown
from kernel_tune.errors import SearchSpaceError
from kernel_tune.search_space.domains import Categorical, Domain, Float, Function, Integer, Normal
from kernel_tune.search_space.draws import Choices, NormalArray, UniformArray, shape_of


def uniform(
    lower: float = 0.0, upper: float | None = None, size: int | Sequence[int] | None = None, **unknown: Any
) -> Domain:
    """Choose a number from `lower` to `upper`, all equally likely, or with a `size` an array of them.

    With one bound the other is 1, as in numpy: `uniform(100)` is from 1 to 100. Raises SearchSpaceError for invalid
    bounds.
    """
    refuse_unknown("uniform()", unknown, uniform)
    if upper is None:
        lower, upper = sorted((lower, 1.0))
    one = Float(lower, upper)
    return one if size is None else Function(UniformArray(one.lower, one.upper, shape_of(size)))


def quniform(lower: float, upper: float, q: float) -> Float:
    """Choose a multiple of `q` from `lower` to `upper`, both included, all equally likely."""
    return Float(lower, upper, quantum=q)


def loguniform(lower: float | None = None, upper: float | None = None, base: float = 10, **unknown: Any) -> Float:
    """Choose a number from `lower` to `upper`, each order of magnitude equally likely. `base` makes no difference."""
    refuse_unknown("loguniform()", unknown, loguniform)
    if lower is None or upper is None:
        raise TypeError("loguniform() needs two bounds, such as loguniform(1e-4, 1e-1)")
    return Float(lower, upper, log=True)


def qloguniform(lower: float, upper: float, q: float, base: float = 10) -> Float:
    """Choose a multiple of `q` from `lower` to `upper`, both included, each order of magnitude equally likely."""
    return Float(lower, upper, log=True, quantum=q)


def randn(*arguments: float, mean: float = 0.0, sd: float = 1.0, size: int | Sequence[int] | None = None) -> Domain:
    """Choose a number of the normal distribution: `randn(mean, sd)`. `randn()` has mean 0 and standard deviation 1.

    With lengths it is an array of standard normal numbers, as in numpy: `randn(10)` and `randn(2, 3, 4)`. Two numbers
    are a mean and a deviation; for a matrix write `randn(size=(2, 3))`. Raises SearchSpaceError for other arguments.
    """
    is_plain = (mean, sd) == (0.0, 1.0)
    if size is None and is_plain and len(arguments) not in (0, 2) and all(_is_length(each) for each in arguments):
        size, arguments = arguments, ()  # type: ignore[assignment]
    if size is not None:
        if arguments or not is_plain:
            raise SearchSpaceError("randn takes a size, or a mean and a standard deviation: it was given both")
        return Function(NormalArray(shape_of(size)))
    if len(arguments) > 2:
        raise SearchSpaceError(f"randn takes whole numbers as lengths, or a mean and a deviation, not {arguments}")
    return Normal(*(*arguments, *(mean, sd)[len(arguments) :]))


def _is_length(value: float) -> bool:
    return type(value) is int and value > 0


def qrandn(mean: float, sd: float, q: float) -> Normal:
    """Choose a number of the normal distribution, rounded to a multiple of `q`."""
    return Normal(mean, sd, quantum=q)


def randint(lower: int, upper: int | None = None) -> Integer:
    """Choose an integer from `lower` to below `upper`. `randint(10)` is from 0, as in numpy."""
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


def choice(
    categories: Sequence[Any] | int | None = None,
    size: int | Sequence[int] | None = None,
    replace: bool = True,
    p: Sequence[float] | None = None,
    **unknown: Any,
) -> Domain:
    """Choose one of some values, with probabilities `p`, by default equal. `choice(10)` is one of 0 to 9.

    A value may be a dict or list with domains of its own, which are only chosen if it is (a conditional space). With a
    `size` a list of that many values is chosen, or nested lists for several lengths, as in numpy; each value at most
    once if `replace` is False. Raises SearchSpaceError for other arguments.
    """
    refuse_unknown("choice()", unknown, choice)
    if isinstance(categories, int) and not isinstance(categories, bool):
        categories = range(categories)
    elif isinstance(categories, (str, bytes)) or not hasattr(categories, "__iter__"):
        raise SearchSpaceError(f"choice takes a list of values, not {categories!r}: write choice([{categories!r}])")
    else:
        categories = list(categories)
    one = Categorical(categories, p)
    return one if size is None else Function(Choices(categories, shape_of(size), replace, p))


def sample_from(func: Callable[..., Any]) -> Function:
    """Use the return value of a function, which takes nothing, or one argument: the other values of the configuration.

    `spec.config.alpha`, `spec["config"]["alpha"]`, `spec["alpha"]` and `spec.alpha` are all the value of `alpha`, also
    if it is written further down, or comes from a function itself. Draws from `random` and `numpy.random` in the
    function follow the seed of the searcher.
    """
    return Function(func)


def grid_search(values: Iterable[Any]) -> dict[str, list[Any]]:
    """Try every one of these values, in every combination with other grids. Raises SearchSpaceError without values."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise SearchSpaceError(f"grid_search takes a list of values, not {values!r}: write grid_search([{values!r}])")
    values = list(values)
    if not values:
        raise SearchSpaceError("grid_search has no values: give at least one")
    return {"grid_search": values}

"""BOHB with a search space of ConfigSpace."""

from __future__ import annotations

from typing import Any

from kernel_tune.errors import SearchSpaceError
from kernel_tune.search_space.functions import choice, lograndint, loguniform, randint, randn, uniform
from kernel_tune.searchers.bohb import BOHBSearch


class TuneBOHB(BOHBSearch):
    """`BOHBSearch` that also takes a `ConfigurationSpace` of ConfigSpace, and needs no other library.

    Floats, integers, categories, ordered categories, constants and normal numbers are converted; conditions between
    them raise SearchSpaceError. The arguments are those of `BOHBSearch`; the default metric is "neg_mean_loss".
    """

    @property
    def metric(self) -> Any:
        """The key of the result that is optimised."""
        return self._metric or "neg_mean_loss"

    def __init__(self, space: Any = None, bohb_config: dict[str, Any] | None = None, max_concurrent: int = 10,
                 metric: str | None = None, mode: str | None = None, **options: Any) -> None:  # fmt: skip
        if space is not None and not isinstance(space, dict):
            space = space_of(space)
        elif isinstance(space, dict) and any(_kind(value) for value in space.values()):
            space = {name: _domain(parameter) for name, parameter in space.items()}
        super().__init__(space, bohb_config, metric, mode, max_concurrent, **options)


def space_of(configuration_space: Any) -> dict[str, Any]:
    """Return a `ConfigurationSpace` as a space of tune's. Raises SearchSpaceError if it has no equivalent."""
    if getattr(configuration_space, "conditions", None) or getattr(configuration_space, "forbidden_clauses", None):
        raise SearchSpaceError(
            "the ConfigurationSpace has conditions or forbidden clauses: write it as a space of tune's, with a choice"
            " whose options are dicts with domains of their own"
        )
    names = list(configuration_space)
    return {str(name): _domain(configuration_space[name]) for name in names}


def _kind(parameter: Any) -> str:
    """Return the class name of a parameter of ConfigSpace; "" for other objects."""
    return type(parameter).__name__ if type(parameter).__module__.startswith("ConfigSpace") else ""


def _domain(parameter: Any) -> Any:
    kind = _kind(parameter)
    if kind == "UniformFloatHyperparameter":
        return (loguniform if parameter.log else uniform)(float(parameter.lower), float(parameter.upper))
    if kind == "UniformIntegerHyperparameter":
        return (lograndint if parameter.log else randint)(int(parameter.lower), int(parameter.upper) + 1)
    if kind == "NormalFloatHyperparameter":
        return randn(float(parameter.mu), float(parameter.sigma))
    if kind == "CategoricalHyperparameter":
        return choice(list(parameter.choices))
    if kind == "OrdinalHyperparameter":
        return choice(list(parameter.sequence))
    if kind == "Constant":
        return parameter.value
    raise SearchSpaceError(f"{parameter!r} is a {kind or type(parameter).__name__}, which can't be part of the space")

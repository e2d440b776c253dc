"""A searcher that asks scikit-optimize."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kernel_runs.optional import needed
from kernel_tune.errors import SearchSpaceError
from kernel_tune.search_space.domains import Float, Integer
from kernel_tune.search_space.flat import Parameter
from kernel_tune.searchers.adapters.library import LibrarySearcher, Values


class SkOptSearch(LibrarySearcher):
    """Asks a scikit-optimize `Optimizer` (pip install scikit-optimize).

    Without `optimizer` one is made for `space`: tune's, or a dict of scikit-optimize's dimensions (or their short
    forms: a tuple of bounds, a list of categories). With an existing `optimizer`, `space` (or `parameter_names`) is the
    list of the names of its dimensions; points to evaluate may then be lists in that order. Raises SearchSpaceError
    without the names.
    """

    def __init__(self, optimizer: Any = None, space: Any = None, metric: str | None = None, mode: str | None = None,
                 points_to_evaluate: Sequence[Any] | None = None, evaluated_rewards: Sequence[float] | None = None,
                 convert_to_python: bool = True, parameter_names: Sequence[str] | None = None,
                 seed: int | None = None, **unknown: Any) -> None:  # fmt: skip
        self._library = needed("skopt", "SkOptSearch", "scikit-optimize")
        space = list(parameter_names) if parameter_names is not None else space
        if optimizer is not None and not isinstance(space, (list, tuple)):
            raise SearchSpaceError(
                "SkOptSearch has an optimizer, and no names of its dimensions: give them as `space`, a list"
            )
        super().__init__(space, metric, mode, points_to_evaluate, evaluated_rewards, seed, **unknown)
        self._given = optimizer

    def _is_tunes(self, space: Any) -> bool:
        return super()._is_tunes(space) and not any(type(v).__module__.startswith("skopt") for v in space.values())

    @property
    def _names(self) -> list[str]:
        if self._flat is not None:
            return list(self._parameters)
        return list(self._native)

    def _open(self) -> Any:
        if self._given is not None:
            return self._given
        if self._flat is not None:
            dimensions = [_dimension(self._library.space, parameter) for parameter in self._parameters.values()]
        else:
            dimensions = list(self._native.values())
        return self._library.Optimizer(dimensions, random_state=self._seed)

    def _ask(self) -> tuple[Any, Any]:
        asked = list(self._optimizer.ask())
        plain = [value.item() if hasattr(value, "item") else value for value in asked]
        return asked, dict(zip(self._names, plain, strict=True))

    def _ask_for(self, chosen: Any) -> tuple[Any, Any]:
        if not isinstance(chosen, dict):
            return list(chosen), dict(zip(self._names, chosen, strict=True))
        return [chosen[name] for name in self._names], chosen

    def _tell(self, handle: Any, loss: float) -> None:
        if math.isfinite(loss):
            self._optimizer.tell(handle, loss)

    def _values_of(self, point: Any) -> Values:
        values = super()._values_of(point)
        if self._flat is None:
            return values
        for name, parameter in self._parameters.items():
            if isinstance(parameter.domain, Float) and parameter.cells:
                values[name] = int(parameter.cell_of(parameter.domain.to_unit(values[name])))
        return values

    def _config_of(self, chosen: Any) -> dict[str, Any]:
        if self._flat is not None:
            chosen = dict(chosen)
            for name, parameter in self._parameters.items():
                if isinstance(parameter.domain, Float) and parameter.cells:
                    assert parameter.edges is not None
                    middle = float(parameter.edges[chosen[name] : chosen[name] + 2].mean())
                    chosen[name] = parameter.domain.from_unit(middle)
        return super()._config_of(chosen)


def _dimension(space: Any, parameter: Parameter) -> Any:
    domain = parameter.domain
    if isinstance(domain, Float) and not parameter.cells:
        return space.Real(domain.lower, domain.upper, prior="log-uniform" if domain.log else "uniform")
    if isinstance(domain, Integer) and domain.quantum == 1:
        return space.Integer(domain.lower, domain.upper - 1, prior="log-uniform" if domain.log else "uniform")
    if parameter.is_categorical:
        return space.Categorical(list(range(parameter.cells)))
    if isinstance(domain, Integer):
        return space.Integer(domain.lower, domain.upper)
    if parameter.cells:
        return space.Integer(0, parameter.cells - 1)
    return space.Real(getattr(domain, "mean", 0.0) - 4 * getattr(domain, "sd", 1.0),
                      getattr(domain, "mean", 0.0) + 4 * getattr(domain, "sd", 1.0))  # fmt: skip

"""A searcher that asks Nevergrad."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kernel_runs.optional import needed
from kernel_tune.searchers.adapters.library import LibrarySearcher


class NevergradSearch(LibrarySearcher):
    """Asks an optimizer of Nevergrad (pip install nevergrad).

    `optimizer` is an optimizer, a class or family of them, or a name in its registry (by default `NGOpt`), made with
    `optimizer_kwargs`; it is good to set their `budget`. `space` is one of tune's, or a Nevergrad parameter. With an
    existing optimizer the second argument (or `parameter_names`) may be the names of its dimensions; None if it is
    instrumented with keyword arguments.
    """

    def __init__(self, optimizer: Any = None, optimizer_kwargs: Any = None, space: Any = None,
                 metric: str | None = None, mode: str | None = None,
                 points_to_evaluate: Sequence[dict[str, Any]] | None = None,
                 parameter_names: Sequence[str] | None = None, seed: int | None = None,
                 evaluated_rewards: Sequence[float] | None = None, **unknown: Any) -> None:  # fmt: skip
        self._library = needed("nevergrad", "NevergradSearch", "nevergrad")
        if isinstance(optimizer_kwargs, (list, tuple)):
            parameter_names, optimizer_kwargs = optimizer_kwargs, None
        if isinstance(space, (list, tuple)):
            parameter_names, space = space, None
        if isinstance(optimizer, self._library.optimizers.base.Optimizer):
            space = optimizer.parametrization
        super().__init__(space, metric, mode, points_to_evaluate, evaluated_rewards, seed, **unknown)
        self._chosen = optimizer
        self._options = {"budget": 100, **(optimizer_kwargs or {})}
        self._given_names = None if parameter_names is None else list(parameter_names)

    def _open(self) -> Any:
        ng = self._library
        if isinstance(self._chosen, ng.optimizers.base.Optimizer):
            return self._chosen
        space = self._native
        if self._flat is not None:
            space = ng.p.Dict(**{f"x{n}": ng.p.Scalar(lower=0, upper=1) for n in range(len(self._flat))})
            for number, parameter in enumerate(self._parameters.values()):
                if parameter.is_categorical:
                    space[f"x{number}"] = ng.p.Choice(list(range(parameter.cells)))
        if self._seed is not None:
            space.random_state.seed(self._seed)
        make = self._chosen or "NGOpt"
        make = ng.optimizers.registry[make] if isinstance(make, str) else make
        return make(parametrization=space, **self._options)

    def _ask(self) -> tuple[Any, Any]:
        asked = self._optimizer.ask()
        return asked, self._read(asked)

    def _ask_for(self, chosen: Any) -> tuple[Any, Any]:
        self._optimizer.suggest(self._write(chosen))
        asked = self._optimizer.ask()
        return asked, self._read(asked)

    def _tell(self, handle: Any, loss: float) -> None:
        if math.isfinite(loss):
            self._optimizer.tell(handle, loss)

    def _read(self, asked: Any) -> Any:
        if self._flat is None:
            if self._given_names is not None:
                return dict(zip(self._given_names, (float(x) for x in asked.args[0]), strict=True))
            return dict(asked.value) if isinstance(asked.value, dict) else dict(asked.kwargs)
        values = {}
        for number, (name, parameter) in enumerate(self._parameters.items()):
            value = asked.value[f"x{number}"]
            values[name] = int(value) if parameter.is_categorical else parameter.domain.from_unit(float(value))
        return values

    def _write(self, chosen: Any) -> Any:
        if self._flat is None:
            return [chosen[name] for name in self._given_names] if self._given_names is not None else dict(chosen)
        return {
            f"x{number}": chosen[name] if parameter.is_categorical else parameter.domain.to_unit(chosen[name])
            for number, (name, parameter) in enumerate(self._parameters.items())
        }

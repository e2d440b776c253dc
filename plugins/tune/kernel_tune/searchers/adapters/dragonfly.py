"""A searcher that asks Dragonfly."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from kernel_runs.errors import OptionalDependencyError
from kernel_runs.optional import needed
from kernel_tune.errors import SearchSpaceError
from kernel_tune.search_space.flat import Parameter
from kernel_tune.search_space.randomness import global_randomness_from
from kernel_tune.searchers.adapters.library import LibrarySearcher, Values

_OPTIMIZERS = {
    ("random", "euclidean"): ("random_optimiser", "EuclideanRandomOptimiser"),
    ("random", "cartesian"): ("random_optimiser", "CPRandomOptimiser"),
    ("bandit", "euclidean"): ("gp_bandit", "EuclideanGPBandit"),
    ("bandit", "cartesian"): ("gp_bandit", "CPGPBandit"),
    ("genetic", "cartesian"): ("cp_ga_optimiser", "CPGAOptimiser"),
}

_FITTED_EVERY = 5
"""The number of results after which a model is fitted again. Dragonfly's own 17 is for long searches."""


class DragonflySearch(LibrarySearcher):
    """Asks an optimiser of Dragonfly, one point at a time (pip install dragonfly-opt 'numpy<2').

    `optimizer` is "bandit" (a Gaussian process), "random", "genetic", a class of Dragonfly's, or an optimiser that was
    made with `ask_tell_mode=True`. Points of the latter are the configuration's `point`, or with `parameter_names` have
    these names. `domain` is "euclidean", where all parameters are numbers, or "cartesian", where categories stay
    categories (the only one of "genetic"). `space` is one of tune's, or a list of Dragonfly's: `{"name": "x", "type":
    "float", "min": 0, "max": 7}`. Points to evaluate may be lists in the order of the space. `random_state_seed` is the
    seed. Raises SearchSpaceError for other combinations.
    """

    def __init__(self, optimizer: Any = "bandit", domain: str | None = None, space: Any = None,
                 metric: str | None = None, mode: str | None = None, points_to_evaluate: Sequence[Any] | None = None,
                 evaluated_rewards: Sequence[float] | None = None, random_state_seed: int | None = None,
                 parameter_names: Sequence[str] | None = None, seed: int | None = None) -> None:  # fmt: skip
        self._library = needed("dragonfly", "DragonflySearch", "dragonfly-opt 'numpy<2'")
        optimizer = "bandit" if optimizer is None else optimizer
        self._given = None if isinstance(optimizer, (str, type)) else optimizer
        if self._given is not None and (domain is not None or space is not None):
            raise SearchSpaceError(
                "DragonflySearch has an optimizer, which has a domain: give no domain or space besides"
            )
        self._kind = optimizer.lower() if isinstance(optimizer, str) else optimizer
        self._domain = (domain or ("cartesian" if self._kind == "genetic" else "euclidean")).lower()
        if isinstance(self._kind, str) and (self._kind, self._domain) not in _OPTIMIZERS:
            known = ", ".join(f"{kind!r} with {of!r}" for kind, of in _OPTIMIZERS)
            raise SearchSpaceError(
                f"DragonflySearch has no optimizer {optimizer!r} with domain {self._domain!r}: there are {known}"
            )
        if self._given is not None:
            space = list(parameter_names or ["point"])
        seed = random_state_seed if seed is None else seed
        super().__init__(space, metric, mode, points_to_evaluate, evaluated_rewards, seed)
        self._is_one_point = self._given is not None and parameter_names is None

    @property
    def _names(self) -> list[str]:
        if self._flat is not None:
            return list(self._parameters)
        return [each["name"] if isinstance(each, dict) else each for each in self._native]

    def _open(self) -> Any:
        with self._at_work():
            made = self._given if self._given is not None else self._make()
            made.initialise()
        return made

    def _make(self) -> Any:
        variables = self._native
        if self._flat is not None:
            variables = [
                _variable(name, parameter, self._domain == "cartesian")
                for name, parameter in zip(map(str, range(len(self._flat))), self._parameters.values(), strict=True)
            ]
        config = self._library.load_config({"domain": list(variables)})
        callers = importlib.import_module("dragonfly.exd.experiment_caller")
        kind = self._kind
        if isinstance(kind, str):
            module, name = _OPTIMIZERS[kind, self._domain]
            kind = getattr(importlib.import_module(f"dragonfly.opt.{module}"), name)
        _repair(self._library)
        if self._domain == "euclidean":
            caller = callers.EuclideanFunctionCaller(None, config.domain.list_of_domains[0])
        else:
            caller = callers.CPFunctionCaller(None, config.domain, domain_orderings=config.domain_orderings)
        made = kind(caller, ask_tell_mode=True)
        made.options.build_new_model_every = _FITTED_EVERY
        return made

    def _ask(self) -> tuple[Any, Any]:
        with self._at_work():
            asked = [value.item() if hasattr(value, "item") else value for value in self._optimizer.ask()]
        return asked, self._read(asked)

    def _ask_for(self, chosen: Any) -> tuple[Any, Any]:
        if self._flat is not None:
            return self._write(chosen), chosen
        if not isinstance(chosen, dict):
            return list(chosen), self._read(list(chosen))
        point = chosen["point"] if self._is_one_point else [chosen[name] for name in self._names]
        return list(point), chosen

    def _tell(self, handle: Any, loss: float) -> None:
        if math.isfinite(loss):
            with self._at_work():
                self._optimizer.tell([(handle, -loss)])
                _step(self._optimizer)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Seed the draws of Dragonfly, and explain errors that come from a too new numpy."""
        _repair(self._library)
        try:
            with global_randomness_from(self._generator):
                yield
        except (AttributeError, TypeError, ValueError) as error:
            if int(np.__version__.partition(".")[0]) < 2:
                raise
            raise OptionalDependencyError(
                f"Dragonfly fails with numpy {np.__version__} ({type(error).__name__}: {error}): it was written for"
                " older ones. Run: pip install dragonfly-opt 'numpy<2'"
            ) from error

    def _read(self, asked: list[Any]) -> Any:
        if self._flat is None:
            return {"point": asked} if self._is_one_point else dict(zip(self._names, asked, strict=True))
        units = []
        for value, parameter in zip(asked, self._parameters.values(), strict=True):
            edges = parameter.edges if self._domain == "cartesian" else None
            units.append(float(value) if edges is None else float(edges[int(value) : int(value) + 2].mean()))
        return self._values_at(units)

    def _write(self, values: Values) -> list[Any]:
        point: list[Any] = []
        for unit, parameter in zip(self._units_of(values), self._parameters.values(), strict=True):
            if parameter.edges is None or self._domain == "euclidean":
                point.append(unit)
            else:
                cell = int(parameter.cell_of(unit))
                point.append(str(cell) if parameter.is_categorical else cell)
        return point


def _step(optimizer: Any) -> None:
    """Count a result, and fit the model again when that is due. Dragonfly's own loop does this, but its ask and tell do
    not: they would keep the model that was fitted to the first few points."""
    if optimizer.first_qinfos:
        return
    optimizer.step_idx += 1
    if optimizer.step_idx - optimizer.last_model_build_at >= optimizer.options.build_new_model_every:
        optimizer._build_new_model()


def _variable(name: str, parameter: Parameter, keeps_kinds: bool) -> dict[str, Any]:
    if keeps_kinds and parameter.is_categorical:
        return {"name": name, "type": "discrete", "items": [str(number) for number in range(parameter.cells)]}
    if keeps_kinds and parameter.cells:
        return {"name": name, "type": "int", "min": 0, "max": parameter.cells - 1}
    return {"name": name, "type": "float", "min": 0.0, "max": 1.0}


class _OlderNumpy:
    """numpy with the names that it had before version 1.24 (Python's own types, `math`), which Dragonfly uses."""

    int, float, bool, object, math = int, float, bool, object, math

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def _repair(library: Any) -> None:
    """Give the imported modules of Dragonfly the names that numpy has removed. numpy itself is not changed."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == library.__name__ and getattr(module, "np", None) is np:
            module.np = _OlderNumpy()  # type: ignore[attr-defined]

"""The base of searchers that ask another library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cloudpickle
import numpy as np

from kernel_runs.reports import Report, look_up, metric_in
from kernel_tune.errors import SearchSpaceError
from kernel_tune.search_space.flat import FlatSpace, Parameter
from kernel_tune.search_space.paths import has_choices
from kernel_tune.search_space.randomness import as_generator
from kernel_tune.searchers.base import Searcher
from kernel_tune.searchers.metrics import finite_number

Values = dict[str, Any]
"""Chosen values by the names of parameters: numbers; for categories, the number of the category."""


class LibrarySearcher(Searcher):
    """Lets a library choose configurations.

    `space` is one of tune's, or one in the library's own form. A subclass defines `_open`, which makes the library's
    optimizer, `_ask` and `_ask_for`, which make it choose, and `_tell`, which passes results on. A library without a
    notion of failure gets no results of failed trials. Raises SearchSpaceError for rewards that do not match the
    points.
    """

    def __init__(self, space: Any = None, metric: str | None = None, mode: str | None = None,
                 points_to_evaluate: Sequence[Any] | None = None, evaluated_rewards: Sequence[float] | None = None,
                 seed: int | None = None, **unknown: Any) -> None:  # fmt: skip
        super().__init__(metric, mode, **unknown)
        points = list(points_to_evaluate or [])
        if evaluated_rewards is not None and len(evaluated_rewards) != len(points):
            raise SearchSpaceError(
                f"there are {len(points)} points_to_evaluate and {len(evaluated_rewards)} evaluated_rewards: give one"
                " reward for each point, or none at all"
            )
        self._seed = seed
        self._generator = as_generator(seed)
        self._to_try: list[Any] = points if evaluated_rewards is None else []
        self._to_learn: list[tuple[Any, Any]] = list(zip(points, evaluated_rewards or [], strict=False))
        self._live: dict[str, Any] = {}
        self._optimizer: Any = None
        self._flat: FlatSpace | None = None
        self._native: Any = None
        self._own_space = space is not None
        if space is not None and self._is_tunes(space):
            self._flat = FlatSpace(space)
        else:
            self._native = space

    def set_search_properties(
        self, metric: str | None, mode: str | None, space: dict[str, Any], **experiment: Any
    ) -> bool:
        super().set_search_properties(metric, mode, space, **experiment)
        if self._own_space:
            return False
        self._flat = FlatSpace(space)
        return True

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        if self._flat is not None and not len(self._flat):
            return self._exact_config({})  # most libraries do not accept an empty space
        self._begin()
        exact: dict[str, Any] | None = None
        if self._to_try:
            point = self._to_try.pop(0)
            asked: Any = self._ask_for(self._values_of(point))
            exact = point if self._flat is not None and isinstance(point, dict) else None
        else:
            asked = self._ask()
        if asked is None or isinstance(asked, str):
            return asked
        handle, chosen = asked
        self._live[trial_id] = handle
        return self._config_of(chosen) if exact is None else self._exact_config(exact)

    def on_trial_complete(self, trial_id: str, result: Report | None = None, error: bool = False) -> None:
        handle = self._live.pop(trial_id, None)
        if handle is None:
            return
        found = result or {}
        score = None if error else finite_number(look_up(found, metric_in(found, self.metric)))
        self._tell(handle, math.inf if score is None else self._loss(score))

    def add_evaluated_point(
        self, parameters: dict[str, Any], value: float, error: bool = False, pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:  # fmt: skip
        self._to_learn.append((parameters, math.nan if error else value))

    def get_state(self) -> dict[str, Any]:
        # Without the space: it may have functions, and the program that restores has the same. Optimizer and running
        # trials are pickled together, as the latter are often parts of the former.
        left_out = ("_flat", "_native", "_own_space", "_library", "_optimizer", "_live")
        state = {key: value for key, value in self.__dict__.items() if key not in left_out}
        return {**state, "library": cloudpickle.dumps((self._portable(), self._live))}

    def set_state(self, state: dict[str, Any]) -> None:
        optimizer, live = cloudpickle.loads(state["library"])
        super().set_state({key: value for key, value in state.items() if key != "library"})
        self._live = live
        self._optimizer = self._restored(optimizer)

    def _portable(self) -> Any:
        """Return the part of the optimizer that can be pickled."""
        return self._optimizer

    def _restored(self, portable: Any) -> Any:
        """Return the optimizer for what `_portable` has returned."""
        return portable

    def _is_tunes(self, space: Any) -> bool:
        return isinstance(space, dict) and (has_choices(space) or not space)

    def _open(self) -> Any:
        """Return the library's optimizer for `_flat`, or for `_native`."""
        raise NotImplementedError

    def _ask(self) -> tuple[Any, Any] | str | None:
        """Let the library choose. Return the handle for `_tell`, and the choice (`Values`, or a native configuration).

        May also return None or FINISHED, as `suggest`.
        """
        raise NotImplementedError

    def _ask_for(self, chosen: Any) -> tuple[Any, Any]:
        """Let the library take a given choice. Returns the same as `_ask`; with the handle None there is no `_tell`."""
        return chosen, chosen

    def _tell(self, handle: Any, loss: float) -> None:
        """Pass a loss on to the library. It is infinite if the trial failed."""
        raise NotImplementedError

    def _begin(self) -> None:
        if self._optimizer is None:
            if self._flat is None and self._native is None:
                raise SearchSpaceError(
                    f"{type(self).__name__} has no search space: give it `space`, or the experiment a configuration"
                    " with domains such as uniform(0, 1)"
                )
            self._optimizer = self._open()
        for point, value in self._to_learn:
            score = finite_number(value)
            handle, _ = self._ask_for(self._values_of(point))
            if handle is not None:
                self._tell(handle, math.inf if score is None else self._loss(score))
        self._to_learn = []

    def _loss(self, score: float) -> float:
        return score if self.mode == "min" else -score

    @property
    def _parameters(self) -> dict[str, Parameter]:
        """The parameters of a space of tune's, by name."""
        assert self._flat is not None
        return dict(zip(self._flat.names, self._flat.parameters, strict=True))

    def _values_at(self, units: Sequence[float]) -> Values:
        """Return the values at these points of the unit interval, one for each parameter, for libraries whose
        parameters are numbers from 0 to 1."""
        values: Values = {}
        for unit, (name, parameter) in zip(units, self._parameters.items(), strict=True):
            domain = parameter.domain
            inside = min(max(float(unit), 0.0), 1.0)
            values[name] = int(parameter.cell_of(inside)) if parameter.is_categorical else domain.from_unit(inside)
        return values

    def _units_of(self, values: Values) -> list[float]:
        """Return the points of values in the unit interval: the inverse of `_values_at`."""
        units = []
        for name, parameter in self._parameters.items():
            if parameter.is_categorical:
                assert parameter.edges is not None
                units.append(float(parameter.edges[values[name] : values[name] + 2].mean()))
            else:
                units.append(parameter.domain.to_unit(values[name]))
        return units

    def _config_of(self, chosen: Any) -> dict[str, Any]:
        """Return the configuration for a choice."""
        flat = self._flat
        if flat is None:
            return dict(chosen)
        point = np.full((1, len(flat)), np.nan)
        exact = {}
        for number, (name, parameter) in enumerate(self._parameters.items()):
            if name not in chosen:
                continue
            if parameter.is_categorical:
                assert parameter.edges is not None
                point[0, number] = parameter.edges[int(chosen[name]) : int(chosen[name]) + 2].mean()
            else:
                point[0, number] = parameter.domain.to_unit(chosen[name])
                if parameter.edges is None and parameter.domain.is_valid(chosen[name]):
                    exact[number] = type(parameter.domain.from_unit(0.5))(chosen[name])
        config: dict[str, Any] = flat.config(flat.settled(point)[0], self._generator, exact)
        return config

    def _exact_config(self, given: dict[str, Any]) -> dict[str, Any]:
        assert self._flat is not None
        point, exact = self._flat.point(given, self._generator)
        config: dict[str, Any] = self._flat.config(point, self._generator, exact)
        return config

    def _values_of(self, point: Any) -> Any:
        """Return the values for a configuration, inactive parameters included."""
        flat = self._flat
        if flat is None:
            return point
        units, exact = flat.point(point, self._generator)
        values: Values = {}
        for number, (name, parameter) in enumerate(self._parameters.items()):
            unit = 0.5 if np.isnan(units[number]) else float(units[number])
            if parameter.is_categorical:
                values[name] = int(parameter.cell_of(unit))
            else:
                values[name] = exact.get(number, parameter.domain.from_unit(unit))
        return values

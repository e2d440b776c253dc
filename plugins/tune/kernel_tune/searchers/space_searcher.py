"""The base of searchers that see a space as the unit cube."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_runs.reports import Report, look_up, metric_in
from kernel_tune.errors import SearchSpaceError
from kernel_tune.search_space.flat import FlatSpace, Point
from kernel_tune.search_space.randomness import as_generator
from kernel_tune.searchers.base import Searcher
from kernel_tune.searchers.history import History
from kernel_tune.searchers.metrics import finite_number


class SpaceSearcher(Searcher):
    """Converts configurations to points and results to losses, so that a subclass only has to propose points.

    `space` is a search space, by default that of the experiment. `points_to_evaluate` are configurations to suggest
    first; missing values are drawn. If `evaluated_rewards` has the metric of each of them, they are learned from
    instead of being tried. `seed` makes all random choices reproducible.

    A trial that failed, or whose metric is not finite, counts as worse than all others. A result without the metric is
    ignored. Raises SearchSpaceError for rewards that do not match the points.
    """

    _grids_as_choices = False

    def __init__(self, space: dict[str, Any] | None = None, metric: str | None = None, mode: str | None = None,
                 points_to_evaluate: Sequence[dict[str, Any]] | None = None,
                 evaluated_rewards: Sequence[float] | None = None, seed: int | None = None,
                 **unknown: Any) -> None:  # fmt: skip
        super().__init__(metric, mode, **unknown)
        if isinstance(self._metric, list):
            raise ValueError(f"{type(self).__name__} optimises one metric, not {metric!r}: TPESearch takes several")
        points = list(points_to_evaluate or [])
        if evaluated_rewards is not None and len(evaluated_rewards) != len(points):
            raise SearchSpaceError(
                f"there are {len(points)} points_to_evaluate and {len(evaluated_rewards)} evaluated_rewards: give one"
                " reward for each point, or none at all"
            )
        self._generator = as_generator(seed)
        self._to_try = points if evaluated_rewards is None else []
        self._to_learn: list[tuple[dict[str, Any], Any]] = list(zip(points, evaluated_rewards or [], strict=False))
        self._live: dict[str, Point] = {}
        self._history: History | None = None
        self._names: list[str] = []
        self._flat: FlatSpace | None = None
        self._own_space = space is not None
        if space is not None:
            self._take_space(space)

    def set_search_properties(
        self, metric: str | None, mode: str | None, space: dict[str, Any], **experiment: Any
    ) -> bool:
        super().set_search_properties(metric, mode, space, **experiment)
        if self._own_space:
            return False
        self._take_space(space)
        return True

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        flat = self._begun()
        exact: dict[int, Any] = {}
        if self._to_try:
            point, exact = flat.point(self._to_try.pop(0), self._generator)
            self._suggested(trial_id, point)
        else:
            proposed = self._propose(trial_id)
            if proposed is None or isinstance(proposed, str):
                return proposed
            point = proposed
        self._live[trial_id] = point
        config: dict[str, Any] = flat.config(point, self._generator, exact)
        return config

    def on_trial_complete(self, trial_id: str, result: Report | None = None, error: bool = False) -> None:
        point = self._live.pop(trial_id, None)
        if point is None:
            return
        losses = self._losses(result, error)
        if losses is not None and self._history is not None:
            self._history.add(point, losses)
        self._completed(trial_id, point, losses)

    def add_evaluated_point(
        self, parameters: dict[str, Any], value: float, error: bool = False, pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:  # fmt: skip
        self._to_learn.append((parameters, math.nan if error else value))

    def get_state(self) -> dict[str, Any]:
        # Without the space: it may have functions, and the program that restores has the same.
        return {key: value for key, value in self.__dict__.items() if key not in ("_flat", "_own_space")}

    def set_state(self, state: dict[str, Any]) -> None:
        self._check_names(state["_names"])
        super().set_state(state)

    def _propose(self, trial_id: str) -> Point | str | None:
        """Return a settled point, None if there is none at present, FINISHED if there will be no other."""
        raise NotImplementedError

    def _suggested(self, trial_id: str, point: Point) -> None:
        """A point to evaluate is suggested instead of a proposed one."""

    def _learned(self, history: History, first: int) -> None:
        """Points that were evaluated elsewhere are in the history now, from this row on."""

    def _completed(self, trial_id: str, point: Point, losses: NDArray[np.float64] | None) -> None:
        """A trial has ended, with losses (in the history now), or with None if it has not reported the metric."""

    def _begin(self, flat: FlatSpace) -> None:
        """The space is known, and the first configuration is requested."""

    @property
    def _metrics(self) -> list[tuple[str, str]]:
        """The metrics that are optimised, with their modes."""
        return [(self.metric, self.mode)]

    def _losses(self, result: Report | None, error: bool) -> NDArray[np.float64] | None:
        if error:
            return np.full(len(self._metrics), np.inf)
        found = result or {}
        values = [look_up(found, metric_in(found, metric)) for metric, _ in self._metrics]
        return None if any(value is None for value in values) else self._as_losses(values)

    def _as_losses(self, values: Sequence[Any]) -> NDArray[np.float64]:
        losses = np.full(len(self._metrics), np.inf)
        for number, (value, (_, mode)) in enumerate(zip(values, self._metrics, strict=True)):
            score = finite_number(value)
            if score is None:
                return np.full(len(self._metrics), np.inf)
            losses[number] = score if mode == "min" else -score
        return losses

    def _take_space(self, space: dict[str, Any]) -> None:
        if not isinstance(space, dict):
            raise SearchSpaceError(f"the search space is {type(space).__name__}: it must be a dict of domains")
        flat = FlatSpace(space, self._grids_as_choices)
        self._check_names(self._names, flat)
        self._flat, self._names = flat, flat.names

    def _check_names(self, saved: list[str], flat: FlatSpace | None = None) -> None:
        flat = flat or self._flat
        if saved and flat is not None and saved != flat.names:
            raise SearchSpaceError(
                f"what was saved is of a search space with {', '.join(saved)}; this one has {', '.join(flat.names)}:"
                " restore it with the space it was saved with"
            )

    def _begun(self) -> FlatSpace:
        if self._flat is None:
            raise SearchSpaceError(
                f"{type(self).__name__} has no search space: give it `space`, or the experiment a configuration with"
                " domains such as uniform(0, 1)"
            )
        if self._history is None:
            self._history = History(len(self._flat), len(self._metrics))
            self._begin(self._flat)
        if self._to_learn:
            first = len(self._history)
            for config, value in self._to_learn:
                point, _ = self._flat.point(config, self._generator)
                self._history.add(point, self._as_losses(value if isinstance(value, (list, tuple)) else [value]))
            self._to_learn = []
            self._learned(self._history, first)
        return self._flat

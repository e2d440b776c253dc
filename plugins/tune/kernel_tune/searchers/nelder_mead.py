"""The simplex method of Nelder and Mead."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_tune.search_space.flat import FlatSpace, Point
from kernel_tune.searchers.history import History
from kernel_tune.searchers.space_searcher import SpaceSearcher

Array = NDArray[np.float64]
WARM_SHARE = 0.4
"""The ratio by which the first simplex is smaller if it is around a point that was evaluated before."""


class NelderMeadSearch(SpaceSearcher):
    """Moves a simplex of configurations downhill: good for few parameters and little noise.

    Source: Nelder, Mead, "A Simplex Method for Function Minimization" (Computer Journal 1965), with the coefficients of
    Gao, Han, "Implementing the Nelder-Mead simplex algorithm with adaptive parameters" (2012). It begins in the middle
    of the space, or at the best known point to evaluate, with edges of `size` of the unit cube. When the simplex has
    shrunk below `tolerance`, it begins again at a random place. Concurrent trials try the points that may be needed
    next; if all of these are being tried, there is no suggestion until a trial ends. Other arguments are those of
    `SpaceSearcher`.
    """

    def __init__(self, space: dict[str, Any] | None = None, metric: str | None = None, mode: str | None = None,
                 size: float = 0.25, tolerance: float = 1e-3, **options: Any) -> None:  # fmt: skip
        super().__init__(space, metric, mode, **options)
        self._size = size
        self._tolerance = tolerance
        self._step = 0
        self._corners: Array = np.empty((0, 0))
        """The simplex, best first, once all of it is known."""
        self._values: Array = np.empty(0)
        self._wanted: dict[str, Array] = {}
        """The points that may be tried in this step, in the order in which they may be needed."""
        self._asked: dict[str, None] = {}
        self._known: dict[str, float] = {}
        self._trials: dict[str, tuple[int, str]] = {}

    def _begin(self, flat: FlatSpace) -> None:
        start = np.full(len(flat), 0.5)
        if self._to_try:
            start = np.nan_to_num(flat.point(self._to_try[0], self._generator)[0], nan=0.5)
        self._build(start)

    def _learned(self, history: History, first: int) -> None:
        if self._step == 1 and not self._asked:
            best = history.points[int(np.argmin(history.losses[:, 0]))]
            self._build(np.nan_to_num(best, nan=0.5), self._size * WARM_SHARE)
            self._step = 1

    def _propose(self, trial_id: str) -> Point | None:
        flat = self._begun()
        if not len(flat):
            return flat.random(self._generator)
        name = next((name for name in self._wanted if name not in self._asked), None)
        if name is None:
            return None
        self._asked[name] = None
        self._trials[trial_id] = (self._step, name)
        return flat.settled(self._wanted[name][None])[0]

    def _completed(self, trial_id: str, point: Point, losses: Array | None) -> None:
        step, name = self._trials.pop(trial_id, (-1, ""))
        if step == self._step:
            self._known[name] = np.inf if losses is None else float(losses[0])
            self._advance()

    def _want(self, points: dict[str, Array]) -> None:
        """Begin a step, in which these points may be tried."""
        self._step += 1
        self._wanted = {name: np.clip(point, 0, 1) for name, point in points.items()}
        self._asked, self._known = {}, {}

    def _build(self, start: Array, size: float | None = None) -> None:
        """Begin a new simplex."""
        size = self._size if size is None else size
        self._corners, self._values = np.empty((0, len(start))), np.empty(0)
        corners = {"corner 0": start}
        for number in range(len(start)):
            corner = start.copy()
            corner[number] += size if corner[number] + size <= 1 else -size
            corners[f"corner {number + 1}"] = corner
        self._want(corners)

    def _advance(self) -> None:
        """Take the next step if all that it needs is known."""
        if any(name.startswith("corner") for name in self._wanted):
            if len(self._known) == len(self._wanted):
                corners = np.concatenate([self._corners, np.array(list(self._wanted.values()))])
                values = np.concatenate([self._values, [self._known[name] for name in self._wanted]])
                self._move(corners, values)
            return
        reflected = self._known.get("reflected")
        if reflected is None:
            return
        if reflected < self._values[0]:
            if "expanded" in self._known:
                self._replace("expanded" if self._known["expanded"] < reflected else "reflected")
        elif reflected < self._values[-2] or (len(self._values) == 2 and reflected < self._values[-1]):
            self._replace("reflected")
        else:
            outside = reflected < self._values[-1]
            contracted = "contracted outside" if outside else "contracted inside"
            if contracted in self._known:
                if self._known[contracted] < min(reflected, self._values[-1]):
                    self._replace(contracted)
                else:
                    self._shrink()

    def _replace(self, name: str) -> None:
        """Replace the worst corner by a point."""
        corners = np.concatenate([self._corners[:-1], self._wanted[name][None]])
        self._move(corners, np.append(self._values[:-1], self._known[name]))

    def _shrink(self) -> None:
        """Move all corners towards the best one."""
        dimensions = self._corners.shape[1]
        factor = max(1 - 1 / dimensions, 0.5)
        best, others = self._corners[0], self._corners[1:]
        self._corners, self._values = self._corners[:1], self._values[:1]
        self._want({f"corner {number}": best + factor * (corner - best) for number, corner in enumerate(others)})

    def _move(self, corners: Array, values: Array) -> None:
        """Take a whole simplex, and set the points that may be tried next."""
        order = np.argsort(values, kind="stable")
        self._corners, self._values = corners[order], values[order]
        if np.ptp(self._corners, axis=0).max() < self._tolerance or not np.isfinite(self._values[0]):
            self._build(self._generator.random(corners.shape[1]))
            return
        dimensions = corners.shape[1]
        centre = self._corners[:-1].mean(0)
        direction = centre - self._corners[-1]
        contraction = 0.75 - 1 / (2 * max(dimensions, 2))
        self._want(
            {
                "reflected": centre + direction,
                "expanded": centre + (1 + 2 / max(dimensions, 2)) * direction,
                "contracted outside": centre + contraction * direction,
                "contracted inside": centre - contraction * direction,
            }
        )

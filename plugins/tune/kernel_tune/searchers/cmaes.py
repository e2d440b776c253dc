"""CMA-ES."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_tune.search_space.flat import FlatSpace, Point
from kernel_tune.searchers.evolution import Evolution
from kernel_tune.searchers.history import History
from kernel_tune.searchers.space_searcher import SpaceSearcher

Array = NDArray[np.float64]
CATEGORICAL_RATE = 0.3
"""The rate at which probabilities of categories move towards those of the better half of a generation."""


class CMAESSearch(SpaceSearcher):
    """Draws from a normal distribution that moves, grows and turns towards good results: CMA-ES.

    Source: Hansen, "The CMA Evolution Strategy: A Tutorial" (2016). It suits more parameters and larger budgets than
    model-based searchers. Integers keep enough spread to change (after Hamano et al., "CMA-ES with Margin", GECCO
    2022); categories have probabilities that move with the rest (after Hamano et al., "CatCMA", GECCO 2024); parameters
    that are not active drift. After convergence it restarts at a random place, with twice the population (Auger,
    Hansen, "A Restart CMA Evolution Strategy With Increasing Population Size", CEC 2005).

    `sigma0` is the first standard deviation in units of the cube, `popsize` the number of trials of a generation, at
    least 4 (by default it depends on the number of parameters). Any number of trials may run at once: a generation ends
    when that many trials have ended, whichever generation they belong to. The search begins in the middle of the space,
    or at the best point that was evaluated before. With `restart=False` it continues after convergence; `tolerance` is
    the standard deviation below which it has converged. Other arguments are those of `SpaceSearcher`. Raises ValueError
    for a too small population.
    """

    def __init__(self, space: dict[str, Any] | None = None, metric: str | None = None, mode: str | None = None,
                 sigma0: float = 1 / 6, popsize: int | None = None, restart: bool = True, tolerance: float = 1e-6,
                 **options: Any) -> None:  # fmt: skip
        super().__init__(space, metric, mode, **options)
        if popsize is not None and popsize < 4:
            raise ValueError(f"popsize is {popsize}: a generation needs at least 4 trials")
        self._sigma = sigma0
        self._popsize = popsize
        self._restart = restart
        self._tolerance = tolerance
        self._evolution: Evolution | None = None
        self._probabilities: dict[int, Array] = {}
        self._drawn: dict[str, Array] = {}
        """The points that were drawn for running trials, inactive parameters included."""
        self._generation: list[tuple[float, Array]] = []
        self._flat_generations = 0

    def _begin(self, flat: FlatSpace) -> None:
        start = np.full(len(flat), 0.5)
        if self._to_try:
            start = np.nan_to_num(flat.point(self._to_try[0], self._generator)[0], nan=0.5)
        self._start(flat, start, self._popsize or Evolution.default_population(len(flat)))

    def _start(self, flat: FlatSpace, mean: Array, population: int) -> None:
        if len(flat):
            self._evolution = Evolution(mean, self._sigma, population)
        self._probabilities = {
            number: np.diff(parameter.edges)
            for number, parameter in enumerate(flat.parameters)
            if parameter.is_categorical and parameter.edges is not None
        }
        self._generation, self._flat_generations = [], 0

    def _learned(self, history: History, first: int) -> None:
        """Begin around the best points that were evaluated before, with their spread (after Nomura et al., "Warm
        Starting CMA-ES for Hyperparameter Optimization", AAAI 2021)."""
        evolution = self._evolution
        if evolution is None or evolution.generation or self._generation:
            return
        order = np.argsort(history.losses[:, 0], kind="stable")
        best = np.nan_to_num(history.points[order[: max(len(order) // 10, 1)]], nan=0.5)
        evolution.mean = best[0]
        if len(best) > 1:
            evolution.sigma = float(np.clip(best.std(0).mean(), self._sigma / 10, self._sigma))

    def _propose(self, trial_id: str) -> Point:
        flat = self._begun()
        if self._evolution is None:
            return flat.random(self._generator)
        drawn = self._evolution.sample(self._generator, self._floor(flat))
        for number, probabilities in self._probabilities.items():
            edges = flat.parameters[number].edges
            assert edges is not None
            cell = int(self._generator.choice(len(probabilities), p=probabilities))
            drawn[number] = (edges[cell] + edges[cell + 1]) / 2
        self._drawn[trial_id] = drawn
        return flat.settled(drawn[None])[0]

    def _completed(self, trial_id: str, point: Point, losses: Array | None) -> None:
        drawn = self._drawn.pop(trial_id, None)
        if losses is None or self._evolution is None or self._flat is None:
            return
        self._generation.append((float(losses[0]), np.nan_to_num(point, nan=0.5) if drawn is None else drawn))
        if len(self._generation) >= self._evolution.population:
            self._end_generation(self._flat, self._evolution)

    def _end_generation(self, flat: FlatSpace, evolution: Evolution) -> None:
        losses = np.array([loss for loss, _ in self._generation])
        order = np.argsort(losses, kind="stable")
        points = np.array([point for _, point in self._generation])[order]
        self._generation = []
        if not np.isfinite(losses).any():
            return
        evolution.update(points, self._floor(flat))
        self._move_probabilities(flat, points[: len(points) // 2])
        self._flat_generations = self._flat_generations + 1 if np.ptp(losses) < 1e-12 else 0
        if self._restart and (self._flat_generations >= 5 or evolution.has_converged(self._tolerance)):
            self._start(flat, self._generator.random(len(flat)), 2 * evolution.population)

    def _move_probabilities(self, flat: FlatSpace, parents: Array) -> None:
        for number, probabilities in self._probabilities.items():
            cells = flat.parameters[number].cell_of(parents[:, number])
            seen = np.bincount(cells, minlength=len(probabilities)) / len(parents)
            moved = (1 - CATEGORICAL_RATE) * probabilities + CATEGORICAL_RATE * seen
            moved = np.where(probabilities > 0, np.maximum(moved, 0.2 / (len(parents) * len(probabilities))), 0)
            self._probabilities[number] = moved / moved.sum()

    def _floor(self, flat: FlatSpace) -> Array:
        """Return the least standard deviations, with which integers still change from time to time."""
        from scipy.special import ndtri  # here: its import takes a tenth of a second

        assert self._evolution is not None
        chance = 1 / (self._evolution.population * max(len(flat), 2))
        width = 0.5 / float(ndtri(1 - chance / 2))
        return np.array(
            [0.0 if p.is_categorical or p.edges is None else width / p.cells for p in flat.parameters], np.float64
        )

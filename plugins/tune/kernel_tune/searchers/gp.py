"""Bayesian optimisation with a Gaussian process."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_tune.search_space.flat import FlatSpace, Point
from kernel_tune.searchers.blas import one_blas_thread
from kernel_tune.searchers.gaussian_process import GaussianProcess, Hyperparameters, fit
from kernel_tune.searchers.history import History
from kernel_tune.searchers.space_searcher import SpaceSearcher

Array = NDArray[np.float64]
ACQUISITIONS = ("ei", "ucb", "poi")
SCALES = (0.2, 0.1, 0.05, 0.02, 0.01, 0.004, 0.001)
"""The widths of the neighbourhoods of the best candidates that are searched for better ones, in turn."""


class GPSearch(SpaceSearcher):
    """Proposes the points that a Gaussian process finds most promising: best for few, expensive trials.

    Source: Snoek, Larochelle, Adams, "Practical Bayesian Optimization of Machine Learning Algorithms" (NIPS 2012). The
    first `n_initial_points` are drawn from the space. `acquisition` is "ei" (expected improvement by more than `xi`,
    Jones, Schonlau, Welch 1998), "ucb" (the mean and `kappa` standard deviations) or "poi" (probability of
    improvement); `utility_kwargs` may have `kind`, `kappa` and `xi`, too. Running trials count as if they had their
    expected result (Ginsbourger et al., "Kriging Is Well-Suited to Parallelize Optimization", 2010). The process is
    fitted to at most `most_points` results, the better and the newest, which bounds the time of a suggestion. Other
    arguments are those of `SpaceSearcher`. Raises ValueError for an unknown acquisition.
    """

    def __init__(self, space: dict[str, Any] | None = None, metric: str | None = None, mode: str | None = None,
                 n_initial_points: int | None = None, acquisition: str = "ei", kappa: float = 2.576, xi: float = 0.0,
                 most_points: int = 150, utility_kwargs: dict[str, Any] | None = None,
                 **options: Any) -> None:  # fmt: skip
        super().__init__(space, metric, mode, **options)
        given = dict(utility_kwargs or {})
        acquisition = given.pop("kind", acquisition)
        self._kappa, self._xi = float(given.pop("kappa", kappa)), float(given.pop("xi", xi))
        if acquisition not in ACQUISITIONS:
            raise ValueError(
                f"GPSearch: acquisition, or kind in utility_kwargs, is {acquisition!r}, but must be one of "
                f"{', '.join(ACQUISITIONS)}"
            )
        if given:
            raise ValueError(
                f"GPSearch: utility_kwargs has {', '.join(map(repr, given))}, but may only have 'kind', 'kappa' and "
                "'xi'"
            )
        self._acquisition = acquisition
        self._initial = n_initial_points
        self._most = most_points
        self._parameters: Hyperparameters | None = None
        self._fitted_to = 0

    def _propose(self, trial_id: str) -> Point:
        flat = self._begun()
        history = self._history
        assert history is not None
        initial = min(2 * len(flat) + 2, 12) if self._initial is None else self._initial
        if not len(flat) or len(history) < max(initial, 2) or not np.isfinite(history.losses[:, 0]).any():
            return flat.random(self._generator)
        with one_blas_thread():
            return self._promising(flat, history)

    def _promising(self, flat: FlatSpace, history: History) -> Point:
        points, losses = self._chosen(history.points, history.losses[:, 0])
        values = _standardised(losses)
        features = _features(flat, points)
        self._fit(features, values, len(history))
        assert self._parameters is not None
        process = GaussianProcess(features, values, self._parameters)
        if self._live:
            pending = _features(flat, np.array(list(self._live.values()))[-self._most :])
            values = np.concatenate([values, process.predict(pending)[0]])
            features = np.concatenate([features, pending])
            process = GaussianProcess(features, values, self._parameters)
        return self._best_candidate(flat, process, points, values)

    def _chosen(self, points: Array, losses: Array) -> tuple[Array, Array]:
        """Return the results that the process is fitted to: half of them the best, half the newest."""
        if len(points) <= self._most:
            return points, losses
        best = np.argsort(losses, kind="stable")[: self._most // 2]
        taken = np.zeros(len(points), bool)
        taken[best] = True
        newest = np.flatnonzero(~taken)[-(self._most - len(best)) :]
        taken[newest] = True
        return points[taken], losses[taken]

    def _fit(self, features: Array, values: Array, count: int) -> None:
        """Fit hyperparameters, from their last values, whenever there are a tenth more results."""
        if self._parameters is not None and count < self._fitted_to * 1.1:
            return
        first = self._parameters is None or len(self._parameters.lengths) != features.shape[1]
        start = Hyperparameters(np.full(features.shape[1], np.log(0.5))) if first else self._parameters
        assert start is not None
        self._parameters = fit(features, values, start, 30 if len(values) <= 60 else 8)
        self._fitted_to = count

    def _best_candidate(self, flat: FlatSpace, process: GaussianProcess, points: Array, values: Array) -> Point:
        """Return the settled point with the highest acquisition: of many random ones, then of ever closer ones."""
        best = float(values.min())
        anywhere = flat.settled(self._generator.random((600, len(flat))))
        order = np.argsort(values[: len(points)], kind="stable")
        leaders = np.concatenate([points[order[:5]], anywhere])
        scores = self._score(process, _features(flat, leaders), best)
        for scale in SCALES:
            top = np.argsort(-scores, kind="stable")[:6]
            leaders, scores = leaders[top], scores[top]
            near = flat.settled(self._moved(flat, np.repeat(leaders, 25, 0), scale))
            leaders = np.concatenate([leaders, near])
            scores = np.concatenate([scores, self._score(process, _features(flat, near), best)])
        new = [number for number in np.argsort(-scores, kind="stable") if not _among(leaders[number], points)]
        return leaders[new[0]] if new else flat.random(self._generator)

    def _moved(self, flat: FlatSpace, points: Array, scale: float) -> Array:
        """Return points with some numbers changed a little, and sometimes a category or an integer."""
        cells = np.array([parameter.cells for parameter in flat.parameters])
        categorical = np.array([parameter.is_categorical for parameter in flat.parameters])
        which = self._generator.random(points.shape) < max(0.5, 1.5 / len(flat))
        least = np.where((cells > 0) & ~categorical, 0.7 / np.maximum(cells, 1), 0.0)
        step = self._generator.standard_normal(points.shape) * np.maximum(scale, least)
        jump = categorical & (self._generator.random(points.shape) < 0.2)
        moved = np.where(which & ~categorical, np.nan_to_num(points, nan=0.5) + step, points)
        return np.where(jump, self._generator.random(points.shape), np.clip(moved, 0, 1))

    def _score(self, process: GaussianProcess, features: Array, best: float) -> Array:
        from scipy.special import log_ndtr, ndtr  # here: its import takes a tenth of a second

        means, deviations = process.predict(features)
        if self._acquisition == "ucb":
            return np.asarray(self._kappa * deviations - means)
        z = (best - self._xi - means) / deviations
        if self._acquisition == "poi":
            return np.asarray(log_ndtr(z))
        improvement = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) + z * ndtr(z)
        # Far below the best, the improvement is lost in rounding, so its tail exp(-z²/2) / z² is used.
        tail = -0.5 * z**2 - 2 * np.log(np.maximum(-z, 1.0)) - 0.92
        return np.log(deviations) + np.where(z > -6, np.log(np.maximum(improvement, 1e-300)), tail)


def _features(flat: FlatSpace, points: Array) -> Array:
    """Return the features of points: numbers as they are, one number for each category, 0.5 for inactive parameters."""
    columns = []
    for number, parameter in enumerate(flat.parameters):
        column = points[:, number]
        if parameter.is_categorical:
            cell = np.where(np.isnan(column), -1, parameter.cell_of(np.nan_to_num(column)))
            columns += [np.where(cell == option, 0.7, 0.0) for option in range(parameter.cells)]
        else:
            columns.append(np.nan_to_num(column, nan=0.5))
    return np.stack(columns, 1)


def _standardised(losses: Array) -> Array:
    """Return losses with mean 0 and variance 1. Infinite ones and outliers are limited first."""
    finite = losses[np.isfinite(losses)]
    low, middle = finite.min(), np.median(finite)
    ceiling = middle + 3 * (middle - low) if middle > low else finite.max()
    values = np.minimum(np.where(np.isfinite(losses), losses, finite.max()), max(ceiling, low))
    deviation = values.std()
    return np.asarray((values - values.mean()) / (deviation if deviation > 1e-12 else 1.0))


def _among(point: Point, points: Array) -> bool:
    """Return whether a point was evaluated already."""
    return bool(np.any(np.all((points == point) | (np.isnan(points) & np.isnan(point)), 1)))

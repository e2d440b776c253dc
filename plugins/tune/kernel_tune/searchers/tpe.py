"""The tree-structured Parzen estimator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_tune.search_space.flat import FlatSpace, Point
from kernel_tune.searchers.pareto import best_first
from kernel_tune.searchers.parzen import ParzenEstimator, kernel_widths
from kernel_tune.searchers.space_searcher import SpaceSearcher

Array = NDArray[np.float64]
MOST_GOOD = 25
MOST_BAD = 250
"""The largest number of kernels of worse configurations, the newest, so that a suggestion takes a bounded time."""


class TPESearch(SpaceSearcher):
    """Proposes points that are likely among the better configurations and unlikely among the others.

    Both are modelled by Parzen estimators over the whole space, conditions included. Of `n_candidates` points that are
    drawn from that of the better ones, the one with the highest ratio of densities is proposed. Source: Bergstra,
    Bardenet, Bengio, Kegl, "Algorithms for Hyper-Parameter Optimization" (NIPS 2011), section 4; joint kernels and
    bandwidths: Falkner, Klein, Hutter, "BOHB" (ICML 2018), and Watanabe, "Tree-Structured Parzen Estimator" (2023).

    The first `n_initial_points` configurations are drawn from the space. `gamma` is the share of configurations that
    count as better, or a function from their number to that of the better ones; `multivariate=False` models each
    parameter separately. A running trial counts among the worse ones (a "constant liar"), so that concurrent trials
    differ; `constant_liar=False` leaves them out. `metric` and `mode` may be lists: then the better ones are those of
    the first Pareto fronts (Ozaki et al., "Multiobjective TPE", JAIR 2022). Other arguments are those of
    `SpaceSearcher`. Raises ValueError for an invalid mode or gamma.
    """

    def __init__(self, space: dict[str, Any] | None = None, metric: str | Sequence[str] | None = None,
                 mode: str | Sequence[str] | None = None, points_to_evaluate: Sequence[dict[str, Any]] | None = None,
                 evaluated_rewards: Sequence[Any] | None = None, seed: int | None = None, n_initial_points: int = 10,
                 gamma: Any = 0.15, n_candidates: int = 48, multivariate: bool = True, constant_liar: bool = True,
                 **unknown: Any) -> None:  # fmt: skip
        several = metric is not None and not isinstance(metric, str)
        super().__init__(space, None if several else metric, None if several else mode, points_to_evaluate,  # type: ignore[arg-type]
                         evaluated_rewards, seed, **unknown)  # fmt: skip
        self._several: list[tuple[str, str]] = []
        if several:
            names = list(metric or [])
            modes = [mode or "max"] * len(names) if mode is None or isinstance(mode, str) else list(mode)
            if len(modes) != len(names) or any(m not in ("min", "max") for m in modes):
                raise ValueError(f"mode is {mode!r}: give 'min' or 'max' for each of the metrics {', '.join(names)}")
            self._several = [(name, str(m)) for name, m in zip(names, modes, strict=True)]
        if not callable(gamma) and not 0 < gamma < 1:
            raise ValueError(f"gamma is {gamma!r}: it is a share between 0 and 1, or a function")
        self._initial = n_initial_points
        self._gamma = gamma
        self._candidates = n_candidates
        self._multivariate = multivariate
        self._liar = constant_liar

    @property
    def metric(self) -> Any:
        """The key of the result that is optimised, or a list of them."""
        return [name for name, _ in self._several] or super().metric

    @property
    def mode(self) -> Any:
        """ "max" or "min", or a list of them."""
        return [mode for _, mode in self._several] or super().mode

    @property
    def _metrics(self) -> list[tuple[str, str]]:
        return self._several or super()._metrics

    def _propose(self, trial_id: str) -> Point:
        flat = self._begun()
        history = self._history
        assert history is not None
        if not len(flat) or len(history) < self._initial:
            return flat.random(self._generator)
        good, bad = self._split(history.points, history.losses)
        if self._liar and self._live:
            bad = np.concatenate([bad, np.array(list(self._live.values()))])
        better, worse = self._estimator(flat, good), self._estimator(flat, bad)
        if not self._multivariate:
            return self._one_by_one(flat, better, worse)
        candidates = better.sample(self._generator, self._candidates)
        return candidates[int(np.argmax(better.log_density(candidates) - worse.log_density(candidates)))]

    def _split(self, points: Array, losses: Array) -> tuple[Array, Array]:
        """Return the better points, best first, and the others, newest last."""
        usable = int(np.isfinite(losses).all(1).sum())
        wanted = self._gamma(len(points)) if callable(self._gamma) else math.ceil(self._gamma * len(points))
        count = min(max(int(wanted), 1), MOST_GOOD, usable)
        order = best_first(losses, count)
        return points[order[:count]], points[np.sort(order[count:])[-MOST_BAD:]]

    def _estimator(self, flat: FlatSpace, points: Array) -> ParzenEstimator:
        count = len(points)
        cells = np.array([parameter.cells for parameter in flat.parameters])
        widths = kernel_widths(points, len(flat) if self._multivariate else 1)
        return ParzenEstimator(flat, points, np.ones(count + 1), widths, cells / (cells + count + 1))

    def _one_by_one(self, flat: FlatSpace, better: ParzenEstimator, worse: ParzenEstimator) -> Point:
        """Return a point whose numbers are chosen one after another, each independently of the others."""
        point = np.full((1, len(flat)), np.nan)
        for number in range(len(flat)):
            candidates = better.sample(self._generator, self._candidates)
            candidates = candidates[~np.isnan(candidates[:, number])]
            if len(candidates):
                ratios = better.log_density(candidates, number) - worse.log_density(candidates, number)
                point[0, number] = candidates[int(np.argmax(ratios)), number]
        return flat.settled(point)[0]

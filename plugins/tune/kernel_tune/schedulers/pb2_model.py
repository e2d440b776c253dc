"""The model of PB2: a Gaussian process over a function that changes with time, and the choice of the next point."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LENGTHS = (0.1, 0.2, 0.4, 0.8, 1.6)
_EPSILONS = (0.001, 0.05, 0.2, 0.5)
_NOISES = (0.01, 0.1, 0.5)
_C1, _C2 = 0.2, 0.4
"""The constants of the paper's beta_t = c1 + log(c2 t)."""
MOST_POINTS = 100
"""The number of newest observations that are used. The cost grows with its third power."""


def covariance(squared: Array, ages: Array, length: float, epsilon: float) -> Array:
    """Return covariances for squared distances of points and differences of times, of the same shape.

    Squared exponential in the points, times (1 - epsilon)**(|difference of times| / 2). Source: Parker-Holder, Nguyen,
    Roberts, "Provably Efficient Online Hyperparameter Optimization with Population-Based Bandits" (NeurIPS 2020,
    arXiv:2002.02518), equation 5, after Bogunovic et al. (AISTATS 2016).
    """
    product: Array = np.exp(-squared / (2 * length**2)) * (1 - epsilon) ** (ages / 2)
    return product


def distances(a: Array, b: Array) -> Array:
    """Return the squared distances of points (n, d) and (m, d): (n, m)."""
    apart: Array = np.maximum((a**2).sum(1)[:, None] + (b**2).sum(1)[None, :] - 2 * a @ b.T, 0.0)
    return apart


def ages(a: Array, b: Array) -> Array:
    """Return the differences, without sign, of times (n,) and (m,): (n, m)."""
    return np.abs(a[:, None] - b[None, :])


class TimeVaryingProcess:
    """Models a Gaussian process fitted to values `y` (n,) at points `x` (n, d), scaled to 0..1, at `times` (n,).

    Length scale, forgetting (epsilon) and noise are chosen from a grid by the largest marginal likelihood; the variance
    follows from them. Deviations take account of points (k, d) that are `pending` at the time `now`.
    """

    def __init__(self, x: Array, times: Array, y: Array, pending: Array, now: float) -> None:
        apart, old = distances(x, x), ages(times, times)
        best = -math.inf
        for length, epsilon, noise in itertools.product(_LENGTHS, _EPSILONS, _NOISES):
            lower = np.linalg.cholesky(covariance(apart, old, length, epsilon) + noise * np.eye(len(y)))
            half = np.linalg.solve(lower, y)
            variance = float(half @ half) / len(y) + 1e-12
            likelihood = -0.5 * len(y) * math.log(variance) - float(np.log(np.diag(lower)).sum())
            if likelihood > best:
                best = likelihood
                self.length, self.epsilon, self.noise, self.variance = length, epsilon, noise, variance
        self._now, self._count = now, len(y)
        self._x = np.vstack([x, pending])
        self._times = np.concatenate([times, np.full(len(pending), now)])
        everything = covariance(distances(self._x, self._x), ages(self._times, self._times), self.length, self.epsilon)
        everything += self.noise * np.eye(len(self._x))
        self._weights = np.linalg.solve(everything[: len(y), : len(y)], y)
        self._inverse = np.linalg.inv(everything)

    def predict(self, points: Array) -> tuple[Array, Array]:
        """Return the expected values at points (m, d) now, and their standard deviations: (m,) each."""
        since = ages(np.full(len(points), self._now), self._times)
        across = covariance(distances(points, self._x), since, self.length, self.epsilon)
        left = 1 - ((across @ self._inverse) * across).sum(axis=1)
        return across[:, : self._count] @ self._weights, np.sqrt(self.variance * np.maximum(left, 1e-12))


def next_point(
    x: Array, times: Array, y: Array, context: Array, time: float, pending: Array, generator: np.random.Generator
) -> Array:
    """Return the free part (d,) of the point with the largest upper confidence bound, within 0..1.

    The columns of `x` (n, c + d) are first a context, which can't be chosen, then the free part. `context` (c,) is that
    of the new point. `pending` (k, d) are points that were chosen at this time and not observed yet: they lower the
    deviation, but not the mean (Desautels et al., JMLR 15, 2014). Source: arXiv:2002.02518, equation 4 and algorithm 2.
    """
    free = x.shape[1] - len(context)

    def with_context(points: Array) -> Array:
        return np.hstack([np.tile(context, (len(points), 1)), points])

    x, times, kept = x[-MOST_POINTS:], times[-MOST_POINTS:], y[-MOST_POINTS:]
    standard = np.clip((kept - kept.mean()) / (kept.std() + 1e-8), -3, 3)
    process = TimeVaryingProcess(x, times, standard, with_context(pending), time)
    width_of_bound = math.sqrt(_C1 + max(0.0, math.log(_C2 * len(y))))

    def bound(points: Array) -> Array:
        mean, deviation = process.predict(with_context(points))
        return mean + width_of_bound * deviation

    points = generator.random((256 * free, free))
    for width in (0.1, 0.03, 0.01):
        best = points[np.argsort(-bound(points), kind="stable")[:8]]
        near = np.repeat(best, 16, axis=0) + generator.normal(0, width, (128, free))
        points = np.vstack([best, np.clip(near, 0, 1)])
    chosen: Array = points[int(np.argmax(bound(points)))]
    return chosen

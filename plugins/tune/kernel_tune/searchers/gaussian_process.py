"""Gaussian process regression in the unit cube."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
JITTER = 1e-8
SQRT5 = math.sqrt(5)


@dataclass(frozen=True)
class Hyperparameters:
    """Logarithms of a length for each feature, shape (features,), of the signal's variance, and of the noise's."""

    lengths: Array
    signal: float = 0.0
    noise: float = -6.0

    @staticmethod
    def of(vector: Array) -> Hyperparameters:
        """Return hyperparameters from a vector."""
        return Hyperparameters(vector[:-2], float(vector[-2]), float(vector[-1]))

    def vector(self) -> Array:
        """Return the hyperparameters as a vector."""
        return np.concatenate([self.lengths, [self.signal, self.noise]])


class GaussianProcess:
    """A Gaussian process with a Matern 5/2 kernel and a length for each feature, given its hyperparameters.

    Source: Rasmussen, Williams, "Gaussian Processes for Machine Learning" (2006), equations 4.17 and 2.25 to 2.26.
    `points` have shape (n, features), `values` shape (n,); the values should have mean 0 and variance 1.
    """

    def __init__(self, points: Array, values: Array, hyperparameters: Hyperparameters) -> None:
        from scipy.linalg import cho_factor, cho_solve  # here: its import takes a tenth of a second

        self._points = points
        self._parameters = hyperparameters
        covariance, _ = _matern(_squared_distances(points, points, hyperparameters), hyperparameters.signal)
        covariance[np.diag_indices_from(covariance)] += math.exp(hyperparameters.noise) + JITTER
        self._factor = cho_factor(covariance, lower=True)
        self._weights = cho_solve(self._factor, values)

    def predict(self, points: Array) -> tuple[Array, Array]:
        """Return means and standard deviations (without noise) at points, both of shape (m,)."""
        from scipy.linalg import solve_triangular

        signal = self._parameters.signal
        between, _ = _matern(_squared_distances(points, self._points, self._parameters), signal)
        solved = solve_triangular(self._factor[0], between.T, lower=True, check_finite=False)
        variances = math.exp(signal) - (solved**2).sum(0)
        return between @ self._weights, np.sqrt(np.maximum(variances, 1e-12))


def fit(points: Array, values: Array, start: Hyperparameters, steps: int) -> Hyperparameters:
    """Return the hyperparameters with the highest posterior density, found from `start` in at most `steps` steps.

    Source: Rasmussen, Williams (2006), equation 5.9, with a prior. Lengths have a log-normal prior that grows with the
    number of features (Hvarfner, Hellsten, Nardi, "Vanilla Bayesian Optimization Performs Great in High Dimensions",
    ICML 2024).
    """
    from scipy.optimize import minimize  # here: its import takes a fifth of a second

    differences = (points[:, None, :] - points[None, :, :]) ** 2
    features = points.shape[1]
    centre = np.concatenate([np.full(features, math.log(0.5) + 0.25 * math.log(features)), [0.0, -7.0]])
    spread = np.concatenate([np.full(features, 1.0), [1.0, 2.5]])
    bounds = [(-4.5, 3.0)] * features + [(-3.0, 4.0), (-14.0, 1.0)]

    def loss(vector: Array) -> tuple[float, Array]:
        value, gradient = _negative_log_likelihood(differences, values, Hyperparameters.of(vector))
        away = (vector - centre) / spread
        return value + 0.5 * float(away @ away), gradient + away / spread

    best = minimize(loss, start.vector(), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps})
    return Hyperparameters.of(best.x) if np.all(np.isfinite(best.x)) else start


def _squared_distances(one: Array, other: Array, parameters: Hyperparameters) -> Array:
    scaled, others = one / np.exp(parameters.lengths), other / np.exp(parameters.lengths)
    squares = (scaled**2).sum(1)[:, None] + (others**2).sum(1)[None, :] - 2 * scaled @ others.T
    result: Array = np.maximum(squares, 0.0)
    return result


def _matern(squares: Array, signal: float) -> tuple[Array, Array]:
    """Return the covariance, and the common factor of its derivatives by the logarithms of lengths."""
    distance = SQRT5 * np.sqrt(squares)
    decay = math.exp(signal) * np.exp(-distance)
    return decay * (1 + distance + distance**2 / 3), decay * (1 + distance) * (5 / 3)


def _negative_log_likelihood(differences: Array, values: Array, parameters: Hyperparameters) -> tuple[float, Array]:
    """Return the value and its gradient. `differences` are squared, of shape (n, n, features)."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    scales = np.exp(-2 * parameters.lengths)
    covariance, common = _matern(differences @ scales, parameters.signal)
    noise = math.exp(parameters.noise)
    noisy = covariance + (noise + JITTER) * np.eye(len(values))
    try:
        factor = cho_factor(noisy, lower=True, check_finite=False)
    except LinAlgError:
        return 1e10, np.zeros(len(parameters.vector()))
    weights = cho_solve(factor, values, check_finite=False)
    inverse = cho_solve(factor, np.eye(len(values)), check_finite=False)
    value = 0.5 * values @ weights + np.log(np.diag(factor[0])).sum()
    outer = inverse - np.outer(weights, weights)
    by_lengths = 0.5 * np.tensordot(outer * common, differences, axes=([0, 1], [0, 1])) * scales
    by_signal = 0.5 * float((outer * covariance).sum())
    by_noise = 0.5 * noise * float(np.trace(outer))
    return float(value), np.concatenate([by_lengths, [by_signal, by_noise]])

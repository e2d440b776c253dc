"""The state of CMA-ES: a normal distribution that moves, grows and turns towards what did well."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LARGEST_CONDITION = 1e14


@dataclass
class Evolution:
    """CMA-ES on the unit cube (Hansen: The CMA Evolution Strategy: A Tutorial, 2016, arXiv:1604.00772, figure 6).

    `mean` has shape (dimensions,), `sigma` is in units of the cube, `population` is how many points make a generation.
    """

    mean: Array
    sigma: float
    population: int
    generation: int = 0
    covariance: Array = field(init=False)
    _path_sigma: Array = field(init=False)
    _path_covariance: Array = field(init=False)

    def __post_init__(self) -> None:
        dimensions = len(self.mean)
        self.covariance = np.eye(dimensions)
        self._path_sigma = np.zeros(dimensions)
        self._path_covariance = np.zeros(dimensions)
        self._set_parameters(dimensions)
        self._decompose()

    @staticmethod
    def default_population(dimensions: int) -> int:
        """Return how many points make a generation (equation 48)."""
        return 4 + int(3 * math.log(max(dimensions, 1)))

    def sample(self, generator: np.random.Generator, floor: Array) -> Array:
        """Draw a point inside the cube. Standard deviations below `floor`, shape (dimensions,), are widened to it."""
        widening = self._widening(floor)
        for _ in range(20):
            normal = generator.standard_normal(len(self.mean))
            point: Array = self.mean + self.sigma * widening * (self._axes @ (self._scales * normal))
            if np.all((point >= 0) & (point <= 1)):
                return point
        return np.clip(point, 0, 1)

    def update(self, points: Array, floor: Array) -> None:
        """Learn from a generation: its points, best first, shape (at least population, dimensions)."""
        dimensions, weights = len(self.mean), self._weights
        steps = (points[: len(weights)] - self.mean) / (self.sigma * self._widening(floor))
        steps = self._shortened(steps)
        self.generation += 1
        step = weights @ steps
        self.mean = np.clip(self.mean + self.sigma * self._widening(floor) * step, 0, 1)
        whitened = self._axes @ ((self._axes.T @ step) / self._scales)
        self._path_sigma = (1 - self._c_sigma) * self._path_sigma + math.sqrt(
            self._c_sigma * (2 - self._c_sigma) * self._mass
        ) * whitened
        length = float(np.linalg.norm(self._path_sigma))
        expected = math.sqrt(dimensions) * (1 - 1 / (4 * dimensions) + 1 / (21 * dimensions**2))
        settled = math.sqrt(1 - (1 - self._c_sigma) ** (2 * self.generation))
        rising = 1.0 if length / settled < (1.4 + 2 / (dimensions + 1)) * expected else 0.0
        self._path_covariance = (1 - self._c_c) * self._path_covariance + rising * math.sqrt(
            self._c_c * (2 - self._c_c) * self._mass
        ) * step
        lost = (1 - rising) * self._c_c * (2 - self._c_c)
        rank_one = np.outer(self._path_covariance, self._path_covariance) + lost * self.covariance
        rank_mu = (steps * weights[:, None]).T @ steps
        self.covariance = (1 - self._c_1 - self._c_mu) * self.covariance + self._c_1 * rank_one + self._c_mu * rank_mu
        self.sigma = min(self.sigma * math.exp(self._c_sigma / self._d_sigma * (length / expected - 1)), 1.0)
        self._decompose()

    def has_converged(self, tolerance: float) -> bool:
        """Return whether no step would be longer than `tolerance`, or the distribution is degenerate."""
        widest = self.sigma * float(self._scales.max())
        return widest < tolerance or float(self._scales.max() / self._scales.min()) ** 2 > LARGEST_CONDITION

    def _set_parameters(self, dimensions: int) -> None:
        """Set what table 1 of the tutorial says, with positive weights only."""
        parents = self.population // 2
        raw = math.log((self.population + 1) / 2) - np.log(np.arange(1, parents + 1))
        self._weights = raw / raw.sum()
        self._mass = mass = float(1 / (self._weights**2).sum())
        self._c_c = (4 + mass / dimensions) / (dimensions + 4 + 2 * mass / dimensions)
        self._c_sigma = (mass + 2) / (dimensions + mass + 5)
        self._c_1 = 2 / ((dimensions + 1.3) ** 2 + mass)
        self._c_mu = min(1 - self._c_1, 2 * (mass - 2 + 1 / mass) / ((dimensions + 2) ** 2 + mass))
        self._d_sigma = 1 + 2 * max(0.0, math.sqrt((mass - 1) / (dimensions + 1)) - 1) + self._c_sigma

    def _decompose(self) -> None:
        self.covariance = (self.covariance + self.covariance.T) / 2
        variances, self._axes = np.linalg.eigh(self.covariance)
        self._scales = np.sqrt(np.maximum(variances, 1e-20))

    def _widening(self, floor: Array) -> Array:
        deviations = self.sigma * np.sqrt(np.maximum(np.diag(self.covariance), 1e-20))
        return np.maximum(floor / deviations, 1.0)

    def _shortened(self, steps: Array) -> Array:
        """Limit steps that are longer than this distribution makes: of points from elsewhere, or from long ago.

        (Hansen: Injecting External Solutions Into CMA-ES, 2011, equation 4.)
        """
        dimensions = len(self.mean)
        most = math.sqrt(dimensions) + 2 * dimensions / (dimensions + 2)
        lengths = np.linalg.norm((steps @ self._axes) / self._scales, axis=1)
        return steps * np.minimum(1.0, most / np.maximum(lengths, 1e-12))[:, None]

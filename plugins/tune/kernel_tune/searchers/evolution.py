"""The state of CMA-ES: a normal distribution that moves, grows and turns towards good points."""

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

    `mean` has shape (dimensions,), `sigma` is in units of the cube, `population` is the number of points of a
    generation.
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
        """Return the default number of points of a generation (equation 48)."""
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
        """Learn from the points of a generation, best first: shape (population, dimensions)."""
        dimensions, parents = len(self.mean), self.population // 2
        steps = self._shortened((points - self.mean) / (self.sigma * self._widening(floor)))
        self.generation += 1
        step = self._weights[:parents] @ steps[:parents]
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
        # Bad points get negative weights, as far as the covariance stays positive definite (equation 46).
        scaled = np.where(self._weights < 0, dimensions / np.maximum(self._lengths(steps) ** 2, 1e-12), 1.0)
        rank_mu = (steps * (self._weights * scaled)[:, None]).T @ steps
        kept = 1 - self._c_1 - self._c_mu * float(self._weights.sum())
        self.covariance = kept * self.covariance + self._c_1 * rank_one + self._c_mu * rank_mu
        self.sigma = min(self.sigma * math.exp(self._c_sigma / self._d_sigma * (length / expected - 1)), 1.0)
        self._decompose()

    def has_converged(self, tolerance: float) -> bool:
        """Return whether all standard deviations are below `tolerance`, or the distribution is degenerate."""
        widest = self.sigma * float(self._scales.max())
        return widest < tolerance or float(self._scales.max() / self._scales.min()) ** 2 > LARGEST_CONDITION

    def _set_parameters(self, dimensions: int) -> None:
        """Set the parameters by table 1 of the tutorial."""
        raw = math.log((self.population + 1) / 2) - np.log(np.arange(1, self.population + 1))
        parents = self.population // 2
        good, bad = raw[:parents], raw[parents:]
        self._mass = mass = float(good.sum() ** 2 / (good**2).sum())
        self._c_c = (4 + mass / dimensions) / (dimensions + 4 + 2 * mass / dimensions)
        self._c_sigma = (mass + 2) / (dimensions + mass + 5)
        self._c_1 = 2 / ((dimensions + 1.3) ** 2 + mass)
        self._c_mu = min(1 - self._c_1, 2 * (0.25 + mass - 2 + 1 / mass) / ((dimensions + 2) ** 2 + mass))
        bad_mass = float(bad.sum() ** 2 / (bad**2).sum())
        share = min(
            1 + self._c_1 / self._c_mu, 1 + 2 * bad_mass / (mass + 2),
            (1 - self._c_1 - self._c_mu) / (dimensions * self._c_mu),
        )  # fmt: skip
        self._weights = np.concatenate([good / good.sum(), share * bad / np.abs(bad).sum()])
        self._d_sigma = 1 + 2 * max(0.0, math.sqrt((mass - 1) / (dimensions + 1)) - 1) + self._c_sigma

    def _decompose(self) -> None:
        self.covariance = (self.covariance + self.covariance.T) / 2
        variances, self._axes = np.linalg.eigh(self.covariance)
        self._scales = np.sqrt(np.maximum(variances, 1e-20))

    def _widening(self, floor: Array) -> Array:
        deviations = self.sigma * np.sqrt(np.maximum(np.diag(self.covariance), 1e-20))
        return np.maximum(floor / deviations, 1.0)

    def _shortened(self, steps: Array) -> Array:
        """Limit steps that are too long for this distribution: those of points from elsewhere, or of earlier
        generations.

        Source: Hansen, "Injecting External Solutions Into CMA-ES" (2011), equation 4.
        """
        dimensions = len(self.mean)
        most = math.sqrt(dimensions) + 2 * dimensions / (dimensions + 2)
        return steps * np.minimum(1.0, most / np.maximum(self._lengths(steps), 1e-12))[:, None]

    def _lengths(self, steps: Array) -> Array:
        """Return the lengths of steps in the metric of the distribution."""
        return np.asarray(np.linalg.norm((steps @ self._axes) / self._scales, axis=1))

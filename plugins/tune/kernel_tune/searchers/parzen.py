"""A Parzen estimator over a search space: a mixture with one kernel around each evaluated point.

A kernel is a product over the parameters. For ordered parameters it is a normal distribution cut off at the ends of the
unit interval (its integral over a cell, if there are cells); for others, the value itself or, with a small probability,
any value. If a parameter of a point is not active, the kernel is the prior there, so that one mixture covers
conditional spaces, too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernel_tune.search_space.flat import FlatSpace

Array = NDArray[np.float64]
MOST_CELLS_INTEGRATED = 128
"""The number of cells above which a kernel counts as constant in each cell."""
TINY = 1e-300
NARROWEST, WIDEST = 0.01, 0.3


def kernel_widths(points: Array, together: int) -> Array:
    """Return a standard deviation for each parameter of `points`, shape (n, parameters): Scott's rule, made robust.

    Source: Scott, "Multivariate Density Estimation" (1992), section 6.5. `together` is the number of parameters that a
    kernel covers. A few points say little about the extent of good regions, so a width is at least 1 / (n + 2), and the
    search does not converge to the first good place.
    """
    count = len(points)
    deviations = np.where(np.isnan(points), 0.5, points).std(0) if count else np.ones(points.shape[1])
    widths = 0.7 * deviations * (count + 1) ** (-1 / (together + 4))
    return np.clip(widths, max(1 / (count + 2), NARROWEST), WIDEST)


class ParzenEstimator:
    """The mixture of kernels around `points`, shape (n, parameters), and of the prior, which is uniform.

    `weights`, shape (n + 1,), are those of the kernels and, last, of the prior. `widths`, broadcast to the shape of
    `points`, are the standard deviations of kernels of ordered parameters; `other`, shape (parameters,), is the
    probability with which a kernel of another parameter takes its value from the prior.
    """

    def __init__(self, flat: FlatSpace, points: Array, weights: Array, widths: Array, other: Array) -> None:
        self._flat = flat
        self._weights = weights / weights.sum()
        prior = np.full((1, len(flat)), np.nan)
        self._means = np.concatenate([points, prior])
        self._widths = np.concatenate([np.broadcast_to(widths, points.shape), prior])
        self._other = other
        self._ordered = np.array([not parameter.is_categorical for parameter in flat.parameters], bool)

    def sample(self, generator: np.random.Generator, count: int, widening: float = 1.0) -> Array:
        """Draw points, shape (count, parameters). Kernels are wider by the factor `widening` than for densities."""
        from scipy.special import ndtr, ndtri  # here: its import takes a tenth of a second

        kernels = generator.choice(len(self._weights), count, p=self._weights)
        means, widths = self._means[kernels], self._widths[kernels] * widening
        anywhere = generator.random(means.shape)
        lows, highs = ndtr(-means / widths), ndtr((1 - means) / widths)
        near = means + widths * ndtri(lows + generator.random(means.shape) * (highs - lows))
        same_value = np.where(generator.random(means.shape) >= self._other, means, anywhere)
        drawn = np.where(self._ordered, near, same_value)
        return self._flat.settled(np.where(np.isfinite(drawn), drawn, anywhere))

    def log_density(self, points: Array, only: int | None = None) -> Array:
        """Return the logarithm of the density (of the probability, if there are cells) at settled points.

        With `only` it is that of one parameter, by its number.
        """
        from scipy.special import ndtr

        logs = np.broadcast_to(np.log(self._weights + TINY), (len(points), len(self._weights))).copy()
        for number, parameter in enumerate(self._flat.parameters):
            if only not in (None, number):
                continue
            here, means, widths = points[:, number, None], self._means[:, number], self._widths[:, number]
            unknown = np.isnan(means)
            if parameter.edges is None:
                prior = np.zeros_like(here)
            else:
                cell = parameter.cell_of(np.nan_to_num(here))
                lows, highs = parameter.edges[cell], parameter.edges[cell + 1]
                prior = np.log(highs - lows + TINY)
            if parameter.is_categorical:
                other = self._other[number]
                kernel = np.log(np.where(np.abs(here - means) < 1e-9, 1 - other, 0) + other * np.exp(prior) + TINY)
            else:
                means, widths = np.where(unknown, 0.5, means), np.where(unknown, 1.0, widths)
                within = np.log(ndtr((1 - means) / widths) - ndtr(-means / widths))
                if parameter.edges is not None and parameter.cells <= MOST_CELLS_INTEGRATED:
                    mass = ndtr((highs - means) / widths) - ndtr((lows - means) / widths)
                    kernel = np.log(mass + TINY) - within
                else:
                    kernel = -0.5 * ((here - means) / widths) ** 2 - np.log(widths) - 0.9189385332 - within + prior
            logs += np.where(np.isnan(here), 0.0, np.where(unknown, prior, kernel))
        largest = logs.max(1, keepdims=True)
        total: Array = np.log(np.exp(logs - largest).sum(1)) + largest[:, 0]
        return total

"""Bayesian linear regression, one row at a time: the mean and the covariance of weights, exact after each row.

Ridge regression is the same: with A = lambda I + sum x x', the mean is inv(A) sum r x, and the covariance, for rewards
of variance 1, is inv(A) (Li et al. 2010, arXiv:1003.0146, algorithm 1; Agrawal and Goyal 2012, arXiv:1209.3352,
section 2.2). inv(A) is never computed anew: a row changes it by Sherman and Morrison's formula, here in the form for a
square root of it (Potter 1963), which can't lose its positive eigenvalues to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kernel_rllib.arrays import Array


class LinearPosteriors:
    """The posteriors of some models that have as many features, in float64."""

    def __init__(self, models: int, features: int, lambda_: float) -> None:
        """Begin with the prior: the mean 0, and the covariance I / lambda.

        Args:
            models: The number of models.
            features: The number of weights of each.
            lambda_: The precision of the prior, or the strength of the ridge; above 0.
        """
        self.means = np.zeros((models, features))
        """The mean weights [models, features]."""
        self.roots = np.tile(np.eye(features) / np.sqrt(lambda_), (models, 1, 1))
        """A root S of each covariance S S' [models, features, features]."""
        self.rows = np.zeros(models, np.int64)
        """The number of rows from which each model has learned."""

    def learn(self, model: int, x: Array, reward: float) -> float:
        """Learn from one row, and return how far off the reward was that the mean had expected.

        With f = S'x, s = 1 + f'f and gain g = S f / s: the mean moves by g (r - x'mean), and S becomes
        S - g f' / (1 + 1 / sqrt(s)), of which the product with itself is inv(A + x x').

        Args:
            model: The number of the model that the row is of.
            x: Its features [features].
            reward: The reward of it.
        """
        root, mean = self.roots[model], self.means[model]
        f = root.T @ x
        scale = 1.0 + f @ f
        gain = root @ f / scale
        error = float(reward - x @ mean)
        mean += gain * error
        root -= np.outer(gain, f / (1.0 + 1.0 / np.sqrt(scale)))
        self.rows[model] += 1
        return error

    def covariance(self, model: int) -> Array:
        """Return the covariance of the weights of a model [features, features]."""
        root = self.roots[model]
        found: Array = root @ root.T
        return found

    def state(self) -> dict[str, Array]:
        """Return all of it as arrays."""
        return {"means": self.means.copy(), "roots": self.roots.copy(), "rows": self.rows.copy()}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Go on with what `state` returned."""
        self.means[...], self.roots[...], self.rows[...] = state["means"], state["roots"], state["rows"]

"""Shares of a whole: a Dirichlet distribution, for spaces whose points are positive numbers that sum to 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernel_rllib.distributions.distribution import Distribution, Noise, Numbers, open_unit

if TYPE_CHECKING:
    from kernel_rllib.nn.ops import Array, Ops

LOG_CONCENTRATION_BOUNDS = (-5.0, 5.0)
"""Inputs are cut to these: concentrations of 0.0067 to 148, in which float32 keeps four digits of a density."""

SMALLEST_SHARE = 1e-30
"""The share in place of 0 when a density is computed."""


@dataclass(frozen=True)
class Dirichlet(Distribution):
    """`size` shares that sum to 1. Actions are floats [N, size].

    Inputs are the logarithms of the concentrations. No gradient goes through a sample.
    """

    size: int

    @property
    def parameter_size(self) -> int:
        return self.size

    @property
    def action_size(self) -> int:
        return self.size

    @property
    def noise(self) -> Noise:
        return Noise("uniform", self.size)

    def sample(self, nn: Ops, inputs: Array, noise: Array) -> Array:
        given = nn.to_numpy(self._concentrations(nn, inputs))
        logs = log_gamma_quantile(given.astype(np.float64), open_unit(nn.to_numpy(noise)))
        parts = np.exp(logs - logs.max(1, keepdims=True))
        return nn.constant((parts / parts.sum(1, keepdims=True)).astype(given.dtype))

    def mode(self, nn: Ops, inputs: Array) -> Array:
        """Return the mean: where a concentration is below 1 the density has no highest point inside."""
        concentrations = self._concentrations(nn, inputs)
        return concentrations / nn.sum(concentrations, 1, True)

    def log_prob(self, nn: Ops, inputs: Array, actions: Array) -> Array:
        concentrations = self._concentrations(nn, inputs)
        logs = nn.log(nn.maximum(actions, SMALLEST_SHARE))
        return nn.sum((concentrations - 1) * logs, 1) - _log_normaliser(nn, concentrations)

    def entropy(self, nn: Ops, inputs: Array) -> Array:
        concentrations = self._concentrations(nn, inputs)
        total = nn.sum(concentrations, 1)
        terms = nn.sum((concentrations - 1) * nn.digamma(concentrations), 1)
        return _log_normaliser(nn, concentrations) + (total - self.size) * nn.digamma(total) - terms

    def kl(self, nn: Ops, inputs: Array, other_inputs: Array) -> Array:
        concentrations = self._concentrations(nn, inputs)
        others = self._concentrations(nn, other_inputs)
        mean_logs = nn.digamma(concentrations) - nn.digamma(nn.sum(concentrations, 1, True))
        terms = nn.sum((concentrations - others) * mean_logs, 1)
        return _log_normaliser(nn, others) - _log_normaliser(nn, concentrations) + terms

    def _concentrations(self, nn: Ops, inputs: Array) -> Array:
        return nn.exp(nn.clip(inputs, *LOG_CONCENTRATION_BOUNDS))


def _log_normaliser(nn: Ops, concentrations: Array) -> Array:
    return nn.sum(nn.lgamma(concentrations), 1) - nn.lgamma(nn.sum(concentrations, 1))


def log_gamma_quantile(shapes: Numbers, uniforms: Numbers) -> Numbers:
    """Return the logarithms of gamma-distributed numbers, which for small shapes are often below the smallest float.

    There the distribution function is x^shape / Gamma(shape + 1) to the last digit.
    """
    from scipy.special import gammaincinv, gammaln

    tails: Numbers = (np.log(uniforms) + gammaln(shapes + 1)) / shapes
    body = gammaincinv(shapes, uniforms)
    return np.where(tails < np.log(1e-20), tails, np.log(np.maximum(body, 1e-300)))

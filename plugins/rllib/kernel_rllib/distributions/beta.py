"""Beta-distributed components between bounds: Chou et al. 2017, Improving Stochastic Policy Gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernel_rllib.distributions.bounds import Bounds
from kernel_rllib.distributions.distribution import Distribution, Noise, open_unit

if TYPE_CHECKING:
    from kernel_rllib.nn.ops import Array, Ops

LARGEST_INPUT = 100.0
"""Inputs count up to here: at a concentration of 101 a component spreads by 3.5 % of its width, and beyond it float32
loses the differences of logarithms of the gamma function."""

EDGE = 1e-6
"""The least distance of an action from a bound, as a share of the width: at a bound itself the density may be 0."""


@dataclass(frozen=True)
class Beta(Distribution):
    """`low + (high - low) x` of independent beta-distributed components x. Actions are floats [N, size].

    Inputs are those of alpha and then those of beta, each of which is 1 + softplus(input): with both above 1 the
    density has one hill. No gradient goes through a sample.
    """

    bounds: Bounds

    @property
    def parameter_size(self) -> int:
        return 2 * self.bounds.size

    @property
    def action_size(self) -> int:
        return self.bounds.size

    @property
    def noise(self) -> Noise:
        return Noise("uniform", self.bounds.size)

    def sample(self, nn: Ops, inputs: Array, noise: Array) -> Array:
        from scipy.special import betaincinv

        hill, other_hill = self._excesses(nn, inputs)
        given = nn.to_numpy(hill)
        alpha, beta = 1 + given.astype(np.float64), 1 + nn.to_numpy(other_hill).astype(np.float64)
        shares = np.clip(betaincinv(alpha, beta, open_unit(nn.to_numpy(noise))), EDGE, 1 - EDGE)
        return self.bounds.from_unit(nn, nn.constant(shares.astype(given.dtype)))

    def mode(self, nn: Ops, inputs: Array) -> Array:
        hill, other_hill = self._excesses(nn, inputs)
        least = 1e-6  # of two excesses of 0, which give the uniform distribution, the mode is then the middle
        return self.bounds.from_unit(nn, (hill + least) / (hill + other_hill + 2 * least))

    def log_prob(self, nn: Ops, inputs: Array, actions: Array) -> Array:
        hill, other_hill = self._excesses(nn, inputs)
        shares = nn.clip(self.bounds.to_unit(nn, actions, inputs), EDGE, 1 - EDGE)
        densities = hill * nn.log(shares) + other_hill * nn.log(1 - shares) - _log_beta(nn, 1 + hill, 1 + other_hill)
        return nn.sum(densities, 1) - self.bounds.log_volume

    def entropy(self, nn: Ops, inputs: Array) -> Array:
        hill, other_hill = self._excesses(nn, inputs)
        total = 2 + hill + other_hill
        terms = _log_beta(nn, 1 + hill, 1 + other_hill) + (total - 2) * nn.digamma(total)
        terms = terms - hill * nn.digamma(1 + hill) - other_hill * nn.digamma(1 + other_hill)
        return nn.sum(terms, 1) + self.bounds.log_volume

    def kl(self, nn: Ops, inputs: Array, other_inputs: Array) -> Array:
        alpha, beta = (1 + excess for excess in self._excesses(nn, inputs))
        other_alpha, other_beta = (1 + excess for excess in self._excesses(nn, other_inputs))
        more_alpha, more_beta = alpha - other_alpha, beta - other_beta
        terms = _log_beta(nn, other_alpha, other_beta) - _log_beta(nn, alpha, beta)
        terms = terms + more_alpha * nn.digamma(alpha) + more_beta * nn.digamma(beta)
        return nn.sum(terms - (more_alpha + more_beta) * nn.digamma(alpha + beta), 1)

    def _excesses(self, nn: Ops, inputs: Array) -> tuple[Array, Array]:
        """Return alpha - 1 and beta - 1, each [N, size]."""
        excesses = nn.softplus(nn.minimum(inputs, LARGEST_INPUT))
        return excesses[:, : self.bounds.size], excesses[:, self.bounds.size :]


def _log_beta(nn: Ops, alpha: Array, beta: Array) -> Array:
    return nn.lgamma(alpha) + nn.lgamma(beta) - nn.lgamma(alpha + beta)

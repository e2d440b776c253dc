"""Normal components that tanh squeezes between bounds: Haarnoja et al. 2018, arXiv 1812.05905, appendix C."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kernel_rllib.distributions.bounds import Bounds
from kernel_rllib.distributions.distribution import Distribution, Noise, constant
from kernel_rllib.distributions.gaussian import Gaussian

if TYPE_CHECKING:
    from kernel_rllib.nn.ops import Array, Ops

LARGEST_TANH = 1 - 1e-6
"""Actions nearer to a bound than this (of 1) are taken to be here when their density is asked for: float32 can't tell
how far out the normal number was."""

QUADRATURE_NODES = 32


@dataclass(frozen=True)
class SquashedGaussian(Distribution):
    """`low + (high - low) (1 + tanh(x)) / 2` of independent normal components x. Actions are floats [N, size].

    Inputs are the means and then the logarithms of the standard deviations of x, cut to `log_std_bounds`. Densities are
    those of the actions between their bounds; an entropy or its target that is stated for actions from -1 to 1 is to be
    raised by `log_scale`.
    """

    bounds: Bounds
    log_std_bounds: tuple[float, float] = (-20.0, 2.0)
    free_log_std: bool = False
    gaussian: Gaussian = field(init=False, repr=False, compare=False)
    """The distribution of x."""

    reparameterised = True

    def __post_init__(self) -> None:
        gaussian = Gaussian(self.bounds.size, self.log_std_bounds, self.free_log_std)
        object.__setattr__(self, "gaussian", gaussian)

    @property
    def parameter_size(self) -> int:
        return self.gaussian.parameter_size

    @property
    def action_size(self) -> int:
        return self.gaussian.size

    @property
    def noise(self) -> Noise:
        return self.gaussian.noise

    @property
    def free_size(self) -> int:
        return self.gaussian.free_size

    @property
    def log_scale(self) -> float:
        """The sum of log((high - low) / 2): 0 for bounds of -1 and 1."""
        return self.bounds.log_volume - self.action_size * math.log(2)

    def sample(self, nn: Ops, inputs: Array, noise: Array) -> Array:
        return self._squashed(nn, self.gaussian.sample(nn, inputs, noise))

    def mode(self, nn: Ops, inputs: Array) -> Array:
        """Return the median, which is where the mean of x goes: what such policies act by when they do not explore."""
        return self._squashed(nn, self.gaussian.mode(nn, inputs))

    def log_prob(self, nn: Ops, inputs: Array, actions: Array) -> Array:
        shares = self.bounds.to_unit(nn, actions, inputs)
        unsquashed = nn.atanh(nn.clip(2 * shares - 1, -LARGEST_TANH, LARGEST_TANH))
        return self._log_density(nn, self.gaussian.log_prob(nn, inputs, unsquashed), unsquashed)

    def sample_and_log_prob(self, nn: Ops, inputs: Array, noise: Array) -> tuple[Array, Array]:
        """Return actions and their log-densities, exact to the last digit however near to a bound the actions are."""
        unsquashed, log_prob = self.gaussian.sample_and_log_prob(nn, inputs, noise)
        return self._squashed(nn, unsquashed), self._log_density(nn, log_prob, unsquashed)

    def entropy(self, nn: Ops, inputs: Array) -> Array:
        """Return the entropy [N]: that of x plus the mean of the logarithm of the slope, by Gauss-Hermite quadrature.

        A component's is within 1e-6 for standard deviations of x up to 1, and within 0.1 up to e^2.
        """
        mean, log_std = self.gaussian.mean_and_log_std(nn, inputs)
        nodes, weights = _quadrature(QUADRATURE_NODES)
        at = nn.expand_dims(mean, 2) + nn.expand_dims(nn.exp(log_std), 2) * constant(nn, nodes, inputs)
        bends = nn.sum(nn.softplus(-2 * at) * constant(nn, weights, inputs), 2)
        slopes = nn.sum(mean + bends, 1) * -2 + self.action_size * 2 * math.log(2)
        return self.gaussian.entropy(nn, inputs) + slopes + self.log_scale

    def kl(self, nn: Ops, inputs: Array, other_inputs: Array) -> Array:
        """Return the divergence [N]: that of the normal components, as squeezing both alike does not change it."""
        return self.gaussian.kl(nn, inputs, other_inputs)

    def _squashed(self, nn: Ops, unsquashed: Array) -> Array:
        return self.bounds.from_unit(nn, nn.tanh(unsquashed) * 0.5 + 0.5)

    def _log_density(self, nn: Ops, log_prob: Array, unsquashed: Array) -> Array:
        """Return the density of x's less the logarithm of the slope, 1 - tanh(x)^2, in a form that can't underflow."""
        slopes = nn.sum(unsquashed + nn.softplus(-2 * unsquashed), 1) * -2 + self.action_size * 2 * math.log(2)
        return log_prob - slopes - self.log_scale


def _quadrature(nodes: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return where, and with which weights, a function is summed up to get its mean under a standard normal."""
    places, weights = np.polynomial.hermite_e.hermegauss(nodes)
    return tuple(places.tolist()), tuple((weights / weights.sum()).tolist())

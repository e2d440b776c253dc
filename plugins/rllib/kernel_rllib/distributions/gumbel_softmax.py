"""A choice that a gradient goes through: Jang et al. 2017, arXiv 1611.01144; Maddison et al. 2017, arXiv 1611.00712."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernel_rllib.distributions.categorical import divergence, entropy
from kernel_rllib.distributions.distribution import Distribution, Noise, numpy_dtype, open_unit

if TYPE_CHECKING:
    from kernel_rllib.nn.ops import Array, Ops

SMALLEST_PART = 1e-30
"""The part in place of 0 when a density is computed."""


@dataclass(frozen=True)
class GumbelSoftmax(Distribution):
    """One of `size` choices as parts that sum to 1: softmax((logits + Gumbel noise) / temperature). Floats [N, size].

    The lower the temperature, the more one part is nearly 1: it is the choice with the probability of its softmax. With
    `straight_through` a sample is exactly one-hot, and has the gradient of the parts. Inputs are logits.
    """

    size: int
    temperature: float = 1.0
    straight_through: bool = False

    reparameterised = True

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
        return self._rounded(nn, self._parts(nn, inputs, noise))

    def mode(self, nn: Ops, inputs: Array) -> Array:
        """Return the likeliest choice, one-hot."""
        one_hot = np.zeros(inputs.shape, numpy_dtype(inputs))
        one_hot[np.arange(len(one_hot)), nn.to_numpy(inputs).argmax(1)] = 1
        return nn.constant(one_hot)

    def log_prob(self, nn: Ops, inputs: Array, actions: Array) -> Array:
        """Return the log-density [N] of parts: definition 1 of Maddison et al."""
        logs = nn.log(nn.maximum(actions, SMALLEST_PART))
        scores = inputs - self.temperature * logs
        constants = math.lgamma(self.size) + (self.size - 1) * math.log(self.temperature)
        return nn.sum(nn.log_softmax(scores, 1) - logs, 1) + constants

    def sample_and_log_prob(self, nn: Ops, inputs: Array, noise: Array) -> tuple[Array, Array]:
        """Return a sample and the log-density of its parts (with `straight_through`, of those before rounding)."""
        parts = self._parts(nn, inputs, noise)
        return self._rounded(nn, parts), self.log_prob(nn, inputs, parts)

    def entropy(self, nn: Ops, inputs: Array) -> Array:
        """Return the entropy [N] of the choice, not of the parts."""
        return entropy(nn, inputs)

    def kl(self, nn: Ops, inputs: Array, other_inputs: Array) -> Array:
        """Return the divergence [N] of the choices, not of the parts."""
        return divergence(nn, inputs, other_inputs)

    def _parts(self, nn: Ops, inputs: Array, noise: Array) -> Array:
        gumbel = -np.log(-np.log(open_unit(nn.to_numpy(noise))))
        noisy = inputs + nn.constant(gumbel.astype(numpy_dtype(inputs)))
        highest = nn.stop_gradient(nn.max(noisy, 1, True))  # Subtracted first, so that the quotient can't overflow.
        return nn.softmax((noisy - highest) / self.temperature, 1)

    def _rounded(self, nn: Ops, parts: Array) -> Array:
        if not self.straight_through:
            return parts
        return self.mode(nn, parts) + (parts - nn.stop_gradient(parts))

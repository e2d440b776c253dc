"""Independent choices of yes or no: for MultiBinary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernel_rllib.distributions.distribution import Distribution, Noise, Numbers

if TYPE_CHECKING:
    from kernel_rllib.nn.ops import Array, Ops

LARGEST_LOGIT = 1e30
"""Stands for infinity where it is weighed by a probability of 0: their product is then 0, and not NaN."""


@dataclass(frozen=True)
class MultiBinary(Distribution):
    """`size` independent Bernoulli components. Actions are int8 [N, size], 0 or 1.

    Inputs are logits, the logarithms of the odds of 1.
    """

    size: int

    discrete = True

    @property
    def parameter_size(self) -> int:
        return self.size

    @property
    def action_size(self) -> int:
        return self.size

    @property
    def noise(self) -> Noise:
        return Noise("uniform", self.size)

    def sample(self, nn: Ops, inputs: Array, noise: Array) -> Numbers:
        actions: Numbers = nn.to_numpy(noise) < nn.to_numpy(nn.sigmoid(inputs))
        return actions.astype(np.int8)

    def mode(self, nn: Ops, inputs: Array) -> Numbers:
        actions: Numbers = nn.to_numpy(inputs) > 0
        return actions.astype(np.int8)

    def log_prob(self, nn: Ops, inputs: Array, actions: Array) -> Array:
        return -nn.sum(nn.softplus(nn.where(nn.constant(actions) > 0, -inputs, inputs)), 1)

    def entropy(self, nn: Ops, inputs: Array) -> Array:
        logits = _finite(nn, inputs)
        return nn.sum(nn.sigmoid(-logits) * nn.softplus(logits) + nn.sigmoid(logits) * nn.softplus(-logits), 1)

    def kl(self, nn: Ops, inputs: Array, other_inputs: Array) -> Array:
        logits, other_logits = _finite(nn, inputs), _finite(nn, other_inputs)
        of_no = nn.softplus(other_logits) - nn.softplus(logits)
        of_yes = nn.softplus(-other_logits) - nn.softplus(-logits)
        return nn.sum(nn.sigmoid(-logits) * of_no + nn.sigmoid(logits) * of_yes, 1)


def _finite(nn: Ops, logits: Array) -> Array:
    return nn.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT)

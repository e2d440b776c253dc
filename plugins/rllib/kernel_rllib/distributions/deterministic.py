"""No distribution: the inputs are the action. For DDPG, TD3 and what explores by noise of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernel_rllib.distributions.bounds import Bounds
from kernel_rllib.distributions.distribution import Distribution, Noise, numpy_dtype

if TYPE_CHECKING:
    from kernel_rllib.nn.ops import Array, Ops


@dataclass(frozen=True)
class Deterministic(Distribution):
    """Actions [N, size] that are the inputs; with bounds, `low + (high - low) (1 + tanh(input)) / 2`.

    All mass is on one action: `log_prob` (of that action), `entropy` and `kl` are 0, so that losses may add them.
    """

    size: int
    bounds: Bounds | None = None

    reparameterised = True

    @property
    def parameter_size(self) -> int:
        return self.size

    @property
    def action_size(self) -> int:
        return self.size

    @property
    def noise(self) -> Noise:
        return Noise("uniform", 0)

    def sample(self, nn: Ops, inputs: Array, noise: Array) -> Array:
        return self.mode(nn, inputs)

    def mode(self, nn: Ops, inputs: Array) -> Array:
        return inputs if self.bounds is None else self.bounds.from_unit(nn, nn.tanh(inputs) * 0.5 + 0.5)

    def log_prob(self, nn: Ops, inputs: Array, actions: Array) -> Array:
        return _zeros(nn, inputs)

    def entropy(self, nn: Ops, inputs: Array) -> Array:
        return _zeros(nn, inputs)

    def kl(self, nn: Ops, inputs: Array, other_inputs: Array) -> Array:
        return _zeros(nn, inputs)


def _zeros(nn: Ops, inputs: Array) -> Array:
    return nn.constant(np.zeros(inputs.shape[0], numpy_dtype(inputs)))

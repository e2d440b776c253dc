"""Independent normal components: the default for a Box."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernel_rllib.distributions.distribution import Distribution, Noise

if TYPE_CHECKING:
    from kernel_rllib.nn.ops import Array, Ops

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Gaussian(Distribution):
    """`size` independent normal components. Actions are floats [N, size], and not bounded.

    Inputs are the means and then the logarithms of the standard deviations, which are cut to `log_std_bounds`: outside
    of them they have no gradient. With `free_log_std` they are parameters of the module that no observation changes.
    """

    size: int
    log_std_bounds: tuple[float, float] = (-20.0, 2.0)
    free_log_std: bool = False

    reparameterised = True

    @property
    def parameter_size(self) -> int:
        return 2 * self.size

    @property
    def action_size(self) -> int:
        return self.size

    @property
    def noise(self) -> Noise:
        return Noise("normal", self.size)

    @property
    def free_size(self) -> int:
        return self.size if self.free_log_std else 0

    def sample(self, nn: Ops, inputs: Array, noise: Array) -> Array:
        mean, log_std = self.mean_and_log_std(nn, inputs)
        return mean + nn.exp(log_std) * nn.constant(noise)

    def mode(self, nn: Ops, inputs: Array) -> Array:
        return inputs[:, : self.size]

    def log_prob(self, nn: Ops, inputs: Array, actions: Array) -> Array:
        mean, log_std = self.mean_and_log_std(nn, inputs)
        return self._log_density(nn, (actions - mean) / nn.exp(log_std), log_std)

    def sample_and_log_prob(self, nn: Ops, inputs: Array, noise: Array) -> tuple[Array, Array]:
        mean, log_std = self.mean_and_log_std(nn, inputs)
        std = nn.exp(log_std)
        actions = mean + std * nn.constant(noise)
        # Not from the noise itself: a learner that asks for the density of these actions finds the same number.
        return actions, self._log_density(nn, (actions - mean) / std, log_std)

    def entropy(self, nn: Ops, inputs: Array) -> Array:
        _, log_std = self.mean_and_log_std(nn, inputs)
        return nn.sum(log_std, 1) + self.size * (0.5 + HALF_LOG_TWO_PI)

    def kl(self, nn: Ops, inputs: Array, other_inputs: Array) -> Array:
        mean, log_std = self.mean_and_log_std(nn, inputs)
        other_mean, other_log_std = self.mean_and_log_std(nn, other_inputs)
        ratio = nn.exp(log_std - other_log_std)
        distance = (mean - other_mean) / nn.exp(other_log_std)
        return nn.sum(other_log_std - log_std + 0.5 * (ratio * ratio + distance * distance) - 0.5, 1)

    def mean_and_log_std(self, nn: Ops, inputs: Array) -> tuple[Array, Array]:
        """Return the means and the logarithms, cut to their bounds, of the standard deviations: each [N, size]."""
        return inputs[:, : self.size], nn.clip(inputs[:, self.size :], *self.log_std_bounds)

    def _log_density(self, nn: Ops, standardised: Array, log_std: Array) -> Array:
        return nn.sum(standardised * standardised * -0.5 - log_std, 1) - self.size * HALF_LOG_TWO_PI

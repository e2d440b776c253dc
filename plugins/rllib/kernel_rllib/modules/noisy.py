"""A linear layer whose weights carry learned noise (Fortunato et al., 2017, "Noisy Networks for Exploration").

y = (mu_w + sigma_w * (f(eps_in) outer f(eps_out))) x + mu_b + sigma_b * f(eps_out) with f(x) = sign(x) sqrt(|x|):
equations 9 to 11, factorised noise. As the noise is factorised, the noisy part is a product of its own,
((x * f(eps_in)) sigma_w + sigma_b) * f(eps_out): so each row can have noise of its own, and no noisy weight is ever
built. The noise is an input, like observations: whoever calls draws it, so that runs can be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.modules.layers import activated
from kernel_rllib.modules.module import Parameter, Parameters
from kernel_rllib.nn import initializers
from kernel_rllib.nn.ops import Ops


@dataclass(frozen=True)
class NoisyDense:
    """A linear layer with an activation, and noise on its weights.

    Attributes:
        name: The prefix of its parameters' names.
        inputs: The width of what it takes.
        outputs: The width of what it gives.
        activation: The name of an activation, or None.
        sigma: The initial size of the noise, before it is divided by the root of `inputs`.
        first: The first column of its numbers in a row of the noise of all layers.
    """

    name: str
    inputs: int
    outputs: int
    activation: str | None
    sigma: float = 0.5
    first: int = 0

    @property
    def noise_width(self) -> int:
        """Return how many numbers of noise a row has for this layer."""
        return self.inputs + self.outputs

    def parameters(self) -> list[Parameter]:
        """Return means and noise levels of its weight and bias (section 3.2 of the paper)."""
        bound = self.inputs**-0.5
        level = initializers.constant(self.sigma * bound)
        mean = initializers.uniform(-bound, bound)
        weight, bias = (self.inputs, self.outputs), (self.outputs,)
        return [
            Parameter(f"{self.name}/weight", weight, mean),
            Parameter(f"{self.name}/weight_sigma", weight, level),
            Parameter(f"{self.name}/bias", bias, mean),
            Parameter(f"{self.name}/bias_sigma", bias, level),
        ]

    def __call__(self, nn: Ops, parameters: Parameters, x: Any, noise: Array | None) -> Any:
        """Return [..., outputs] for x [..., inputs].

        Args:
            nn: The operations.
            parameters: The parameters of all layers.
            x: The inputs [..., inputs].
            noise: `scaled_noise` of all layers, [..., width], repeated along axes of length 1; None for the means of
                the weights alone.
        """
        weight, bias = parameters[f"{self.name}/weight"], parameters[f"{self.name}/bias"]
        if noise is None:
            return nn.linear(x, weight, bias, activation=self.activation)
        middle = self.first + self.inputs
        before = nn.constant(noise[..., self.first : middle])
        after = nn.constant(noise[..., middle : middle + self.outputs])
        sigmas = parameters[f"{self.name}/weight_sigma"], parameters[f"{self.name}/bias_sigma"]
        noisy = nn.linear(x * before, *sigmas) * after
        return activated(nn, nn.linear(x, weight, bias) + noisy, self.activation)


def scaled_noise(drawn: Array) -> Array:
    """Return f(x) = sign(x) sqrt(|x|) of standard normal numbers: what factorised noise is made of."""
    scaled = np.sqrt(np.abs(drawn))
    return np.copysign(scaled, drawn, out=scaled)

"""The module of Q-learning by implicit quantiles (IQN): of each action's return, the quantile at any level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.modules.layers import torch_dense
from kernel_rllib.modules.module import Inputs, Outputs, Parameter, Parameters
from kernel_rllib.modules.noisy import scaled_noise
from kernel_rllib.modules.q_network import QNetworkOptions, through
from kernel_rllib.modules.quantile_network import QUANTILES, QuantileNetwork
from kernel_rllib.nn.ops import Ops
from kernel_rllib.returns.quantiles import quantile_midpoints
from kernel_rllib.returns.risk_measures import DISTORTIONS, RiskMeasure

LEVELS = "levels"
"""The input that says at which levels quantiles are wanted."""


@dataclass(frozen=True)
class ImplicitQuantileOptions(QNetworkOptions):
    """The options of the network: those of a Q-network of one atom, and those of its levels.

    Attributes:
        cosines: The number of cosines in the embedding of a level.
        acting_levels: The number of levels of the quantiles whose mean is an action's value.
        risk_measure: The distortion of levels where actions are valued; None for none.
        risk_eta: The parameter of the measure.
    """

    cosines: int = 64
    acting_levels: int = 32
    risk_measure: RiskMeasure | None = None
    risk_eta: float = 0.0


class ImplicitQuantileNetwork(QuantileNetwork):
    """Quantiles of the returns of all actions at the levels of the input `levels` [N, L], or [1, L] for all rows.

    Z_level(s, a) = f(psi(s) * phi(level))_a (Dabney et al. 2018, arXiv:1806.06923): psi are the layers before the
    heads, f are the heads, phi is the embedding. `train` returns them as `quantiles` [N, A, L].

    Without the input, levels are those that actions are valued at, distorted by the measure of risk: drawn by the last
    numbers of the input `noise`, and without that, in the middles of equal parts.
    """

    options: ImplicitQuantileOptions

    def __init__(
        self, observations: int | Sequence[int], actions: int, options: ImplicitQuantileOptions | None = None
    ) -> None:
        """Build it; see `QNetwork`."""
        super().__init__(observations, actions, options or ImplicitQuantileOptions())
        self.embedding = torch_dense("embedding", self.options.cosines, self.body.outputs, "relu")

    @property
    def noise_width(self) -> int:
        """Return how many numbers of noise a row has for all noisy layers, and for the levels that actions have."""
        return self.training_noise_width + self.options.acting_levels

    @property
    def training_noise_width(self) -> int:
        """Return how many numbers of noise a row has for all noisy layers."""
        return super().noise_width

    def parameters(self) -> Sequence[Parameter]:
        """Return all its parameters."""
        return [*super().parameters(), *self.embedding.parameters()]

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `quantiles` [N, A, L]; of noisy layers with the noise of the input `noise`; see the class."""
        width, drawn = self.training_noise_width, inputs.get(columns.NOISE)
        levels = inputs.get(LEVELS)
        if levels is None:
            levels = self.acting_levels(None if drawn is None else drawn[:, width:])
        noise = None if drawn is None or not width else scaled_noise(drawn[:, None, :width])
        features = self.body(nn, parameters, nn.constant(inputs[columns.OBS]))
        scores = self.scores(nn, parameters, self._at(nn, parameters, features, levels), noise)
        return {QUANTILES: nn.transpose(scores, (0, 2, 1))}

    def advantages(self, nn: Ops, parameters: Parameters, features: Any) -> tuple[Any, Any]:
        """Return what each action is worth beside the others [N, A], and at the levels of acting [N, A, L]."""
        embedded = self._at(nn, parameters, features, self.acting_levels(None))
        quantiles = nn.transpose(through(nn, parameters, self.advantage, embedded, None), (0, 2, 1))
        return self.means(nn, quantiles), quantiles

    def state_values(self, nn: Ops, parameters: Parameters, features: Any) -> Any:
        """Return the quantiles of states at the levels of acting [N, L] for features [N, F]; see `QNetwork`."""
        embedded = self._at(nn, parameters, features, self.acting_levels(None))
        return nn.squeeze(super().state_values(nn, parameters, embedded), 2)

    def acting_levels(self, normals: Array | None) -> Array:
        """Return the levels that actions are valued at: of normal numbers [N, L] as many, and of None [1, L]."""
        if normals is None:
            return self.distorted(quantile_midpoints(self.options.acting_levels)[None])
        return self.distorted(ndtr(normals))

    def distorted(self, levels: Array) -> Array:
        """Return what the measure of risk makes of levels: beta of the paper."""
        options = self.options
        return levels if options.risk_measure is None else DISTORTIONS[options.risk_measure](levels, options.risk_eta)

    def _at(self, nn: Ops, parameters: Parameters, features: Any, levels: Array) -> Any:
        """Return features [N, F] times the embeddings of levels [N, L] or [1, L]: [N, L, F]."""
        cosines = nn.constant(cosines_of(levels, self.options.cosines))
        return nn.expand_dims(features, 1) * self.embedding(nn, parameters, cosines)


def cosines_of(levels: Array, count: int) -> Array:
    """Return cos(pi i level) for i from 0 on [..., count]: equation 4 makes an embedding of these."""
    found: Array = np.cos(np.pi * np.arange(count, dtype=levels.dtype) * levels[..., None])
    return found

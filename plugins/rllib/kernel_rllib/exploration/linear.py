"""Explorations by how unsure expected rewards are: the upper bound of what is plausible, and draws of what may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.distributions.distribution import Noise
from kernel_rllib.modules.linear_arms import SPREAD
from kernel_rllib.nn.ops import Ops


class _ByUncertainty:
    """The base of both explorations: it records no column, and the best arm is that of the greatest expected reward."""

    noise = Noise("uniform", 0)
    keeps: tuple[str, ...] = ()

    def __init__(self, alpha: float) -> None:
        """Take deviations so many times."""
        self._alpha = alpha

    def best(self, nn: Ops, outputs: Mapping[str, Any]) -> Array:
        """Return the arm with the greatest expected reward for each lane [L]."""
        found: Array = outputs[columns.Q_VALUES].argmax(axis=1)
        return found

    def recorded(self, nn: Ops, chosen: Mapping[str, Array]) -> dict[str, Array]:
        """Return no further columns."""
        return {}


class UpperConfidenceBound(_ByUncertainty):
    """Takes the arm that may be the best: x'theta + alpha sqrt(x' inv(A) x) (Li et al. 2010, algorithm 1, line 8)."""

    def choose(self, nn: Ops, outputs: Mapping[str, Any], noise: Array, timestep: int) -> Array:
        """Return an arm for each lane [L]."""
        deviations = np.linalg.norm(outputs[SPREAD], axis=2)
        chosen: Array = (outputs[columns.Q_VALUES] + self._alpha * deviations).argmax(axis=1)
        return chosen


class ThompsonSampling(_ByUncertainty):
    """Draws weights from the posterior, and takes the arm that is best by them (Agrawal and Goyal 2012, algorithm 1).

    Where arms share a model, one draw of its weights is for all of them. Where each has its own, what is drawn is the
    expected reward of each, which has the distribution that it has under drawn weights.
    """

    def __init__(self, alpha: float, *, arms: int, features: int, shared: bool) -> None:
        """Draw with `alpha` times the deviation of the posterior: v in the paper.

        Args:
            alpha: The factor of the deviation.
            arms: The number of arms.
            features: The number of weights of a model.
            shared: Whether all arms have one model.
        """
        super().__init__(alpha)
        self._shared = shared
        self.noise = Noise("normal", features if shared else arms)

    def choose(self, nn: Ops, outputs: Mapping[str, Any], noise: Array, timestep: int) -> Array:
        """Return an arm for each lane [L]."""
        spread = outputs[SPREAD]
        off = np.einsum("laf,lf->la", spread, noise) if self._shared else np.linalg.norm(spread, axis=2) * noise
        chosen: Array = (outputs[columns.Q_VALUES] + self._alpha * off).argmax(axis=1)
        return chosen

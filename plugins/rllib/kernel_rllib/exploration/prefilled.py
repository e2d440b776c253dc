"""Draws of a policy with noise on them, after a while of any actions (Hafner et al. 2019, appendix A)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ndtr

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.distributions.distribution import Distribution, Noise
from kernel_rllib.nn.ops import Ops


class PrefilledDraws:
    """Takes any action at first, then draws of the policy with normal noise, within bounds."""

    keeps: tuple[str, ...] = ()

    def __init__(self, distribution: Distribution, bounds: tuple[Array, Array], *, stddev: float, prefill: int) -> None:
        """Draw from this distribution.

        Args:
            distribution: The distribution.
            bounds: The lowest and the highest numbers of an action, [d] each.
            stddev: The deviation of the noise.
            prefill: The steps of all lanes in which any action is taken.
        """
        self._distribution, self._stddev, self._prefill = distribution, np.float32(stddev), prefill
        self._low, self._high = bounds
        self._width = distribution.noise.width
        self.noise = Noise("normal", self._width + distribution.action_size)

    def choose(self, nn: Ops, outputs: Mapping[str, Any], noise: Array, timestep: int) -> Array:
        """Return an action for each lane [L, d]."""
        if timestep < self._prefill:
            shares = ndtr(noise[:, self._width :])
            any_actions: Array = (self._low + (self._high - self._low) * shares).astype(np.float32)
            return any_actions
        drawn = self._distribution.sample(nn, outputs[columns.ACTION_DIST_INPUTS], noise[:, : self._width])
        actions: Array = np.clip(drawn + self._stddev * noise[:, self._width :], self._low, self._high)
        return actions.astype(np.float32)

    def best(self, nn: Ops, outputs: Mapping[str, Any]) -> Array:
        """Return what the policy thinks best for each lane."""
        actions: Array = self._distribution.mode(nn, outputs[columns.ACTION_DIST_INPUTS])
        return actions

    def recorded(self, nn: Ops, chosen: Mapping[str, Array]) -> dict[str, Array]:
        """Return no further columns."""
        return {}

"""Choose actions by the policy of a search tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.distributions.distribution import Noise
from kernel_rllib.nn.ops import Ops

TREE_POLICIES = "mcts_policies"
"""The column of the probabilities of actions by a tree [N, A]."""


class TreePolicySampling:
    """Draws actions by tree policies, or takes the most probable ones. Noise is for that, and for the search."""

    def __init__(self, actions: int, *, greedy: bool = False) -> None:
        """Choose of so many actions.

        Args:
            actions: The number of actions.
            greedy: Whether the most probable one is taken always.
        """
        self._greedy = greedy
        self.noise = Noise("uniform", 1 + 2 * actions)
        self.keeps: tuple[str, ...] = (TREE_POLICIES,)

    def choose(self, nn: Ops, outputs: Mapping[str, Any], noise: Array, timestep: int) -> Array:
        """Return an action for each lane [L]. Without a tree, it is drawn by the network's probabilities."""
        if self._greedy:
            return self.best(nn, outputs)
        sums = np.cumsum(_probabilities(nn, outputs), axis=1)
        drawn = noise[:, :1].astype(np.float64) * sums[:, -1:]
        found: Array = (sums <= drawn).sum(axis=1).astype(np.int64)
        return found

    def best(self, nn: Ops, outputs: Mapping[str, Any]) -> Array:
        """Return the most probable action of each lane [L]."""
        found: Array = _probabilities(nn, outputs).argmax(axis=1)
        return found

    def recorded(self, nn: Ops, chosen: Mapping[str, Array]) -> dict[str, Array]:
        """Return no further columns."""
        return {}


def _probabilities(nn: Ops, outputs: Mapping[str, Any]) -> Array:
    if TREE_POLICIES in outputs:
        found: Array = outputs[TREE_POLICIES]
        return found.astype(np.float64)
    probabilities: Array = np.asarray(nn.to_numpy(nn.softmax(outputs[columns.ACTION_DIST_INPUTS]))).astype(np.float64)
    return probabilities

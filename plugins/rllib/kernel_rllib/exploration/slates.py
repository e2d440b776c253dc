"""Slates of documents: the best one by the values of its documents, and one of any documents now and then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.distributions.distribution import Noise
from kernel_rllib.modules.slate_network import CHOICE_LOGITS
from kernel_rllib.nn.ops import Ops
from kernel_rllib.nn.schedules import Schedule, schedule

MOST_ROUNDS = 64
"""So often a better slate is looked for; it is found after a few rounds."""


def best_slates(values: Array, logits: Array, size: int) -> tuple[Array, Array]:
    """Return the slates with the greatest values, and these values, exactly (Ie et al. 2019, arXiv:1905.12767, 5.1).

    The value of a slate A is sum_{i in A or none} v_i Q_i / sum_{i in A or none} v_i, with v = e^logits (equations 5
    and 14). It is above x where sum v_i (Q_i - x) > 0, and the documents that make this sum greatest are the first by
    v_i (Q_i - x): so slates get better, round by round, until none is (Dinkelbach 1967). The paper solves the same
    fractional program as a linear one.

    Args:
        values: The values of consuming each document, and of consuming none [N, documents + 1].
        logits: The logits of users' choice of each, and of none [N, documents + 1].
        size: The number of documents of a slate.

    Returns:
        The documents of slates, the best first [N, size], and the values of slates [N].
    """
    values, logits = values.astype(np.float64), logits.astype(np.float64)
    masses = np.exp(logits - logits.max(axis=1, keepdims=True))
    reached = np.full(len(values), -np.inf)
    slates = np.argsort(-masses[:, :-1] * values[:, :-1], axis=1, kind="stable")[:, :size]
    for _ in range(MOST_ROUNDS):
        found = slate_values(values, masses, slates)
        if not (found > reached).any():
            break
        reached = np.maximum(reached, found)
        scores = masses[:, :-1] * (values[:, :-1] - reached[:, None])
        better = np.argsort(-scores, axis=1, kind="stable")[:, :size]
        slates = np.where((slate_values(values, masses, better) > reached)[:, None], better, slates)
    return slates, slate_values(values, masses, slates)


def slate_values(values: Array, masses: Array, slates: Array) -> Array:
    """Return the value of each slate [N].

    Args:
        values: The values of consuming each document, and of consuming none [N, documents + 1].
        masses: The weights of each in users' choice beside the others of a slate [N, documents + 1].
        slates: The documents of slates [N, size].
    """
    shown = np.concatenate([slates, np.full((len(slates), 1), values.shape[1] - 1)], axis=1)
    weights = np.take_along_axis(masses, shown, axis=1)
    found: Array = (weights * np.take_along_axis(values, shown, axis=1)).sum(axis=1) / weights.sum(axis=1)
    return found


class SlateEpsilonGreedy:
    """Shows the best slate, and with probability epsilon(t) one of any documents, each once."""

    keeps: tuple[str, ...] = ()

    def __init__(self, documents: int, size: int, epsilon: Schedule | float) -> None:
        """Explore so.

        Args:
            documents: The number of documents to choose from.
            size: The number of documents of a slate.
            epsilon: The share of random slates, or its schedule over the number of steps that all lanes have made.
        """
        self._size, self._epsilon = size, schedule(epsilon, "epsilon")
        self.noise = Noise("uniform", 1 + documents)

    def choose(self, nn: Ops, outputs: Mapping[str, Any], noise: Array, timestep: int) -> Array:
        """Return the documents of a slate for each lane [L, size]."""
        best = self.best(nn, outputs)
        explored = noise[:, 0] < self._epsilon.value(timestep)
        if not explored.any():
            return best
        anyone = np.argsort(noise[:, 1:], axis=1, kind="stable")[:, : self._size]
        return np.where(explored[:, None], anyone, best)

    def best(self, nn: Ops, outputs: Mapping[str, Any]) -> Array:
        """Return the documents of the best slate for each lane [L, size]."""
        return best_slates(outputs[columns.Q_VALUES], outputs[CHOICE_LOGITS], self._size)[0]

    def recorded(self, nn: Ops, chosen: Mapping[str, Array]) -> dict[str, Array]:
        """Return no further columns."""
        return {}

    def info(self, timestep: int) -> dict[str, float]:
        """Return how probable random slates are after so many steps."""
        return {"cur_epsilon": float(self._epsilon.value(timestep))}

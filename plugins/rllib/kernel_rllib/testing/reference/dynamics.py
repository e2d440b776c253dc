"""Models of transitions in plain float64: dense networks, one after another (Clavera et al. 2018, equation 1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernel_rllib.arrays import Array

Layers = Sequence[tuple[Array, Array]]
"""Weight [in, out] and bias [out] of each layer of a model."""


def change(layers: Layers, obs: Array, action: Array) -> Array:
    """Return the change that a model expects after an action, with swish between its layers."""
    x = np.concatenate([obs, action])
    for number, (weight, bias) in enumerate(layers):
        x = np.array([sum(x[i] * weight[i, j] for i in range(len(x))) + bias[j] for j in range(len(bias))])
        if number < len(layers) - 1:
            x = np.array([value / (1 + np.exp(-value)) for value in x])
    return x


def loss(models: Sequence[Layers], obs: Array, actions: Array, changes: Array) -> float:
    """Return the sum over models of their mean squared error; `changes` are [models, rows, width]."""
    total = 0.0
    for layers, targets in zip(models, changes, strict=True):
        errors = [
            (change(layers, *row)[k] - target[k]) ** 2
            for *row, target in zip(obs, actions, targets, strict=True)
            for k in range(len(target))
        ]
        total += sum(errors) / len(errors)
    return total

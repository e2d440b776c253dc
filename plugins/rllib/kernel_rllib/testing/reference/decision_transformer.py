"""The Decision Transformer in plain float64, token by token: Chen et al. 2021 (arXiv 2106.01345), section 3.

Blocks are those of GPT-2: x + attention(norm(x)), then x + dense(norm(x)); softmax(q k' / sqrt(d)) v within each head.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from kernel_rllib.testing.reference.rows import Rows, softmax

Weights = Mapping[str, Rows]


def predicted_actions(
    weights: Weights,
    observations: Rows,
    actions: Rows,
    returns_to_go: Sequence[float],
    timesteps: Sequence[int],
    *,
    layers: int,
    heads: int,
) -> list[Rows]:
    """Return what each step of one segment predicts of its action, before any tanh.

    Args:
        weights: The parameters, by the names of `DecisionTransformer`.
        observations: What was observed in each step.
        actions: What was done in each, discrete actions one-hot.
        returns_to_go: What was still to come in each, as the network sees it.
        timesteps: The number of each in its episode.
        layers: The number of blocks.
        heads: The number of heads of each.
    """
    tokens: list[Rows] = []
    for step, when in enumerate(timesteps):
        for part, value in (
            ("return", np.array([returns_to_go[step]])),
            ("observation", observations[step]),
            ("action", actions[step]),
        ):
            embedded = _linear(weights, f"embed_{part}", value) + weights["embed_timestep"][when]
            tokens.append(_norm(weights, "embed_norm", embedded))
    for layer in range(layers):
        tokens = _block(weights, f"block_{layer}", tokens, heads)
    return [
        _linear(weights, "action", _norm(weights, "last_norm", tokens[3 * step + 1])) for step in range(len(timesteps))
    ]


def segment_loss(predicted: Sequence[Rows], actions: Sequence[int]) -> float:
    """Return the mean of -log softmax(predicted)[action] over steps."""
    return -float(np.mean([math.log(softmax(row)[action]) for row, action in zip(predicted, actions, strict=True)]))


def _block(weights: Weights, name: str, tokens: Sequence[Rows], heads: int) -> list[Rows]:
    width = len(tokens[0])
    size = width // heads
    made = [_linear(weights, f"{name}/attend", _norm(weights, f"{name}/attend_norm", token)) for token in tokens]
    found = []
    for at, token in enumerate(tokens):
        attended = np.zeros(width)
        for head in range(heads):
            place = slice(head * size, (head + 1) * size)
            query = made[at][:width][place]
            scores = [query @ made[before][width : 2 * width][place] / math.sqrt(size) for before in range(at + 1)]
            for before, share in enumerate(softmax(np.array(scores))):
                attended[place] += share * made[before][2 * width :][place]
        x = token + _linear(weights, f"{name}/attended", attended)
        inner = _linear(weights, f"{name}/dense", _norm(weights, f"{name}/dense_norm", x))
        gelu = np.array([0.5 * value * (1 + math.erf(value / math.sqrt(2))) for value in inner])
        found.append(x + _linear(weights, f"{name}/output", gelu))
    return found


def _linear(weights: Weights, name: str, x: Rows) -> Rows:
    found: Rows = x @ weights[f"{name}/weight"] + weights[f"{name}/bias"]
    return found


def _norm(weights: Weights, name: str, x: Rows) -> Rows:
    found: Rows = (x - x.mean()) / np.sqrt(x.var() + 1e-5) * weights[f"{name}/scale"] + weights[f"{name}/bias"]
    return found

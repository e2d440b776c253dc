"""The importance of parameters.

A forest of regression trees is fitted to the scores, and the variance of its prediction over the whole space is split
among the parameters: first-order functional analysis of variance, after F. Hutter, H. Hoos, K. Leyton-Brown, "An
Efficient Approach for Assessing Hyperparameter Importance" (ICML 2014), section 3. The trees are those of L. Breiman,
"Random Forests" (2001).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]

_TREES = 48
_SMALLEST_LEAF = 3


def importance(points: Floats, scores: Floats, levels: Sequence[int], seed: int = 0) -> Floats:
    """Return the share of the variance that each parameter alone explains: shape (parameters,), sum at most 1.

    `points` has shape (trials, parameters), with values from 0 to 1; `scores` has shape (trials,). `levels` has for
    each parameter the number of its values if they are categories, evenly spaced, otherwise 0. The shares are 0 if all
    scores are equal.
    """
    generator = np.random.default_rng(seed)
    count, width = points.shape
    shares = np.zeros(width)
    used = 0
    for _ in range(_TREES):
        rows = generator.integers(0, count, count)
        boxes, values = _grow(points[rows], scores[rows], _edges(levels), generator)
        parts = _shares(boxes, values)
        if parts is not None:
            shares += parts
            used += 1
    return shares / max(1, used)


def _edges(levels: Sequence[int]) -> Floats:
    """Return the box of the whole space, shape (parameters, 2).

    The values of a category stand in the middle of cells of equal size, so that its outer cells reach beyond 0 and 1.
    """
    beyond = np.array([0.5 / (count - 1) if count > 1 else 0.0 for count in levels])
    return np.stack([-beyond, 1 + beyond], axis=1)


def _grow(points: Floats, scores: Floats, space: Floats, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Grow a tree. Return the boxes of its leaves, shape (leaves, parameters, 2), and its predictions there."""
    boxes, values = [], []
    waiting = [(np.arange(len(scores)), space)]
    while waiting:
        rows, box = waiting.pop()
        found = _split(points[rows], scores[rows], generator)
        if found is None:
            boxes.append(box)
            values.append(scores[rows].mean())
            continue
        column, cut = found
        below = points[rows, column] <= cut
        for side, mask in ((1, below), (0, ~below)):
            part = box.copy()
            part[column, side] = cut
            waiting.append((rows[mask], part))
    return np.array(boxes), np.array(values)


def _split(points: Floats, scores: Floats, generator: np.random.Generator) -> tuple[int, float] | None:
    """Return the column and the position of the cut with the least squared error, or None. Some columns are tried."""
    count, width = points.shape
    if count < 2 * _SMALLEST_LEAF or np.ptp(scores) == 0:
        return None
    best, gain = None, 1e-12
    drawn = generator.permutation(width)[: max(1, -(-2 * width // 3))]
    for column in drawn.tolist():
        order = np.argsort(points[:, column], kind="stable")
        values, sums = points[order, column], np.cumsum(scores[order])
        sizes = np.arange(1, count)
        # With means m1, m2 of the sides the error falls by n1 n2 / n (m1 - m2)^2.
        left, right = sums[:-1] / sizes, (sums[-1] - sums[:-1]) / (count - sizes)
        gains = sizes * (count - sizes) / count * np.square(left - right)
        gains[values[1:] == values[:-1]] = 0
        gains[: _SMALLEST_LEAF - 1] = gains[count - _SMALLEST_LEAF :] = 0
        place = int(np.argmax(gains))
        if gains[place] > gain:
            best, gain = (column, float(values[place] + values[place + 1]) / 2), float(gains[place])
    return best


def _shares(boxes: Floats, values: Floats) -> Floats | None:
    """Return the share of each parameter in the variance of a tree over the space, or None for a constant tree."""
    low, high = boxes[:, :, 0].min(axis=0), boxes[:, :, 1].max(axis=0)
    sizes = (boxes[:, :, 1] - boxes[:, :, 0]) / (high - low)
    weights = sizes.prod(axis=1)
    mean = float(weights @ values)
    variance = float(weights @ np.square(values - mean))
    if variance <= 1e-15:
        return None
    shares = np.zeros(boxes.shape[1])
    for column in range(boxes.shape[1]):
        edges = np.unique(boxes[:, column, :])
        middles, lengths = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / (high[column] - low[column])
        inside = (boxes[:, column, 0, None] < middles) & (middles < boxes[:, column, 1, None])
        others = weights / sizes[:, column]
        marginal = (inside * (others * values)[:, None]).sum(axis=0)
        shares[column] = float(lengths @ np.square(marginal - mean)) / variance
    return shares

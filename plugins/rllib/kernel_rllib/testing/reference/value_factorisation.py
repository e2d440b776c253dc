"""Values of groups of agents: Rashid et al. 2018 (QMIX, arXiv 1803.11485), Sunehag et al. 2017 (VDN, 1706.05296)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from kernel_rllib.testing.reference.rows import Rows


def sum_of_values(values: Rows) -> Rows:
    """Return the values of groups [N] for those of their agents [N, agents]: equation 4 of VDN, equation 3 of QMIX."""
    return np.array([math.fsum(row) for row in values])


def monotonic_values(values: Rows, states: Rows, weights: Mapping[str, Rows], width: int) -> Rows:
    """Return the values of groups [N] as the mixing network of QMIX makes them: figure 2 and section 4.1.

    Args:
        values: [N, agents], those of the actions that the agents chose.
        states: [N, S], global states.
        weights: Those of the networks of the state, a `NAME/weight` [in, out] and a `NAME/bias` [out] for each of
            `weight`, `bias`, `last_weight`, `last_bias_hidden`, `last_bias`.
        width: The width of the hidden layer of the mixing network.
    """

    def linear(name: str, inputs: Rows) -> Rows:
        return inputs @ np.asarray(weights[f"{name}/weight"]) + np.asarray(weights[f"{name}/bias"])

    result = np.zeros(len(values))
    for row, (of_agents, state) in enumerate(zip(values, states, strict=True)):
        first = np.abs(linear("weight", state)).reshape(len(of_agents), width)
        summed = of_agents @ first + linear("bias", state)
        hidden = np.array([number if number > 0 else math.exp(number) - 1 for number in summed])
        relu = np.maximum(linear("last_bias_hidden", state), 0)
        result[row] = hidden @ np.abs(linear("last_weight", state)) + linear("last_bias", relu)[0]
    return result


def best_joint_values(target_values: Rows, allowed: Rows, chooser_values: Rows | None = None) -> Rows:
    """Return the values [N, agents] of what each agent does best among what it may do.

    Args:
        target_values: [N, agents, actions], by the target network.
        allowed: Of the same shape, true for actions that may be taken.
        chooser_values: Those that say what is best: of the network that learns (double Q), or None for the target's.
    """
    chooser = target_values if chooser_values is None else chooser_values
    result = np.zeros(target_values.shape[:2])
    for row, agent in np.ndindex(*result.shape):
        may = [action for action in range(target_values.shape[2]) if allowed[row, agent, action]]
        best = max(may, key=lambda action, at=(row, agent): chooser[at][action])  # type: ignore[misc]
        result[row, agent] = target_values[row, agent, best]
    return result


def group_targets(rewards: Rows, terminateds: Sequence[bool], next_values: Rows, gamma: float) -> Rows:
    """Return r + gamma Q_tot(s', u') [N, K], without the latter after steps that terminated: equation 6 of QMIX."""
    result = np.zeros(next_values.shape)
    for row, column in np.ndindex(*result.shape):
        result[row, column] = rewards[row] + (0.0 if terminateds[row] else gamma * next_values[row, column])
    return result


def group_loss(totals: Rows, targets: Rows, mask: Rows) -> float:
    """Return the mean of the squared errors [N, K] of rows that count: equation 6 of QMIX."""
    squares = [
        (totals[row, column] - targets[row, column]) ** 2 for row, column in np.ndindex(*totals.shape) if mask[row]
    ]
    return math.fsum(squares) / len(squares)

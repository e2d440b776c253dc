"""AlphaZero as its paper writes it (Silver et al. 2017, arXiv:1712.01815): one tree of nodes, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernel_rllib.testing.reference.rows import Rows

Predict = Callable[[Any], tuple[Sequence[float], float]]
"""Gives the probabilities of actions in a state, 0 where they may not be taken, and its value for who acts there."""
Follow = Callable[[Any, int], tuple[Any, float, bool]]
"""Gives, for a state and an action, the next state, the reward of who acted, and whether the episode ended."""


@dataclass
class Node:
    """A state in a tree.

    Attributes:
        state: The state.
        priors: The probabilities of its actions.
        reward: The reward of the step that led here.
        ended: Whether the episode ended here.
        visits: How often each action was chosen.
        totals: What these visits were worth together.
        children: The states that actions lead to, as far as they were tried.
    """

    state: Any
    priors: Sequence[float]
    reward: float = 0.0
    ended: bool = False
    visits: dict[int, int] = field(default_factory=dict)
    totals: dict[int, float] = field(default_factory=dict)
    children: dict[int, Node] = field(default_factory=dict)

    def best(self, exploration: float) -> int:
        """Return argmax Q(s, a) + c P(s, a) sqrt(N(s)) / (1 + N(s, a)); of equals, the first one."""
        made = 1 + sum(self.visits.values())

        def score(action: int) -> float:
            visits = self.visits.get(action, 0)
            mean = self.totals.get(action, 0.0) / max(visits, 1)
            return mean + exploration * self.priors[action] * math.sqrt(made) / (1 + visits)

        legal = [action for action, prior in enumerate(self.priors) if prior > 0]
        return max(legal, key=score)


def root_visits(
    state: Any, simulations: int, exploration: float, players: int, predict: Predict, follow: Follow
) -> list[int]:
    """Return how often each action was chosen at the root."""
    root = Node(state, predict(state)[0])
    for _ in range(simulations):
        simulate(root, exploration, 1.0 if players == 1 else -1.0, predict, follow)
    return [root.visits.get(action, 0) for action in range(len(root.priors))]


def simulate(node: Node, exploration: float, sign: float, predict: Predict, follow: Follow) -> float:
    """Walk from a node to a new state or to an end, and return what the node turned out to be worth."""
    action = node.best(exploration)
    child = node.children.get(action)
    if child is None:
        state, reward, ended = follow(node.state, action)
        priors, value = ([], 0.0) if ended else predict(state)
        child = node.children[action] = Node(state, priors, reward, ended)
        worth = reward + sign * value
    elif child.ended:
        worth = child.reward
    else:
        worth = child.reward + sign * simulate(child, exploration, sign, predict, follow)
    node.visits[action] = node.visits.get(action, 0) + 1
    node.totals[action] = node.totals.get(action, 0.0) + worth
    return worth


def loss(logits: Rows, values: Rows, policies: Rows, outcomes: Rows) -> float:
    """Return the mean of ((z - v)^2 - pi log p) / 2: equation 1 without its penalty, halved.

    Args:
        logits: Of the actions of each step [N, A].
        values: The values v of the steps [N].
        policies: The policies pi of their trees [N, A].
        outcomes: What the steps turned out to be worth, z [N].
    """
    total = 0.0
    for row, value, policy, outcome in zip(logits, values, policies, outcomes, strict=True):
        most = max(row)
        mass = most + math.log(sum(math.exp(logit - most) for logit in row))
        total += (outcome - value) ** 2 - sum(
            share * (logit - mass) for share, logit in zip(policy, row, strict=True) if share
        )
    return float(total) / (2 * len(values))

"""Monte Carlo tree search with the PUCT rule (Silver et al. 2017, arXiv:1712.01815), over many trees at once.

Pure arrays: a tree for each game, an edge for each action of a node. Neither environments nor networks are asked
here: the caller hands in what follows an edge, and what a network says of it, so that leaves of all trees are valued in
one batch. No number is drawn: noise is handed in, and of equal scores the first action counts. A tree depends on
nothing of others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernel_rllib.arrays import Array

_NONE = -1
"""The child of an edge that was not tried yet, and the node of a tree in a depth that its path does not reach."""


@dataclass(frozen=True)
class Edges:
    """Edges that were chosen for the first time, one of some of the trees.

    Attributes:
        tree: The trees [M].
        node: The nodes that the edges begin at [M]; 0 is the root.
        action: Their actions [M].
    """

    tree: Array
    node: Array
    action: Array


@dataclass(frozen=True)
class Reached:
    """What is at the ends of new edges [M].

    Attributes:
        rewards: The rewards of these edges, from the view of who acted.
        ended: Whether the episode has ended there.
        values: The network's value of what is observed there, from the view of who acts next. Not read where it ended.
        priors: The network's probabilities of the next actions [M, A]; 0 for those that may not be taken.
        legal: Which actions may be taken [M, A].
    """

    rewards: Array
    ended: Array
    values: Array
    priors: Array
    legal: Array


class Trees:
    """The search trees of some games, all grown by one simulation at a time: `select`, then `grow`."""

    def __init__(self, priors: Array, legal: Array, simulations: int, *, exploration: float, players: int = 1) -> None:
        """Begin with a root for each game.

        Args:
            priors: The probabilities of the actions at the roots [G, A]; 0 for those that may not be taken.
            legal: Which actions may be taken there [G, A].
            simulations: How many simulations there will be at most.
            exploration: The weight of priors against values: c_puct.
            players: 1, or 2 who take turns, of whom one gets what the other loses.
        """
        games, actions = priors.shape
        nodes = simulations + 1
        self._exploration, self._sign = exploration, 1.0 if players == 1 else -1.0
        self._children = np.full((games, nodes, actions), _NONE, np.int32)
        self._visits = np.zeros((games, nodes, actions))
        self._totals = np.zeros((games, nodes, actions))
        self._priors = np.zeros((games, nodes, actions))
        self._legal = np.zeros((games, nodes, actions), bool)
        self._rewards, self._ended = np.zeros((games, nodes)), np.zeros((games, nodes), bool)
        self._count = np.ones(games, np.int64)
        self._priors[:, 0], self._legal[:, 0] = priors, legal
        self._games = np.arange(games)
        self._path: list[tuple[Array, Array]] = []

    @property
    def visits(self) -> Array:
        """How often each action was chosen at the roots [G, A]."""
        found: Array = self._visits[:, 0]
        return found

    @property
    def values(self) -> Array:
        """The mean value of each action at the roots [G, A], from the view of who acts there; 0 of one never chosen."""
        found: Array = self._totals[:, 0] / np.maximum(self._visits[:, 0], 1.0)
        return found

    def select(self) -> Edges:
        """Walk down each tree, and return the edges at whose ends there is nothing yet.

        At each node the action with the largest Q(s, a) + U(s, a) is taken, where Q is the mean value, 0 at first, and
        U(s, a) = c_puct P(s, a) sqrt(N(s)) / (1 + N(s, a)); N(s) counts the visit that made the node, too. A walk may
        end where an episode ended: then there is no new edge in that tree.
        """
        self._path = []
        node = np.zeros(len(self._games), np.int64)
        walking = np.ones(len(self._games), bool)
        new = np.zeros(len(self._games), bool)
        while walking.any():
            trees = self._games[walking]
            action = self._best(trees, node[walking])
            here, taken = np.full(len(node), _NONE), np.full(len(node), _NONE)
            here[trees], taken[trees] = node[trees], action
            self._path.append((here, taken))
            child = self._children[trees, node[trees], action]
            new[trees] = child == _NONE
            node[trees] = np.where(child == _NONE, node[trees], child)
            walking[trees] = (child != _NONE) & ~self._ended[trees, child]
        trees = self._games[new]
        begin, action = np.zeros(len(trees), np.int64), np.zeros(len(trees), np.int64)
        for here, taken in self._path:  # the last edge of each path is the new one
            on = here[trees] != _NONE
            begin[on], action[on] = here[trees][on], taken[trees][on]
        return Edges(trees, begin, action)

    def grow(self, edges: Edges, reached: Reached) -> Array:
        """Add what is at the ends of new edges, and count the values of this simulation along all paths.

        Args:
            edges: What `select` returned.
            reached: What is there.

        Returns:
            The numbers of the new nodes [M] in their trees.
        """
        trees = edges.tree
        made: Array = self._count[trees].copy()
        self._children[trees, edges.node, edges.action] = made
        self._count[trees] += 1
        self._rewards[trees, made], self._ended[trees, made] = reached.rewards, reached.ended
        self._priors[trees, made], self._legal[trees, made] = reached.priors, reached.legal
        value = np.zeros(len(self._games))
        value[trees] = np.where(reached.ended, 0.0, reached.values)
        self._back_up(value)
        return made

    def _back_up(self, value: Array) -> None:
        """Add G = r + sign G' to each edge of the last paths, from their ends, where values are [G], to the roots."""
        for here, taken in reversed(self._path):
            on = here != _NONE
            trees, nodes, actions = self._games[on], here[on], taken[on]
            child = self._children[trees, nodes, actions]
            value[trees] = self._rewards[trees, child] + self._sign * value[trees]
            self._visits[trees, nodes, actions] += 1.0
            self._totals[trees, nodes, actions] += value[trees]

    def _best(self, trees: Array, nodes: Array) -> Array:
        visits = self._visits[trees, nodes]
        means = self._totals[trees, nodes] / np.maximum(visits, 1.0)
        at_node = np.sqrt(1.0 + visits.sum(axis=1, keepdims=True))
        scores = means + self._exploration * self._priors[trees, nodes] * at_node / (1.0 + visits)
        found: Array = np.where(self._legal[trees, nodes], scores, -np.inf).argmax(axis=1)
        return found


def with_noise(priors: Array, legal: Array, noise: Array, share: float) -> Array:
    """Return probabilities [G, A] with a share of noise: (1 - share) P + share noise.

    Args:
        priors: The probabilities [G, A].
        legal: Which actions may be taken [G, A].
        noise: Draws of a Dirichlet distribution over the actions that may be taken [G, A].
        share: From 0 to 1.
    """
    found: Array = np.where(legal, (1.0 - share) * priors + share * noise, 0.0)
    return found


def tree_policy(visits: Array, exponent: float) -> Array:
    """Return the probabilities of actions [G, A], in proportion to visits [G, A] to the power of `exponent`.

    The paper's temperature is the inverse of the exponent.
    """
    shares = visits / np.maximum(visits.max(axis=1, keepdims=True), 1.0)
    powers = np.where(visits > 0, shares**exponent, 0.0)
    found: Array = powers / powers.sum(axis=1, keepdims=True)
    return found

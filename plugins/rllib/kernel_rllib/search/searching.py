"""Searches from the observations of some lanes: trees are grown by a network and a simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

from kernel_rllib.arrays import Array
from kernel_rllib.errors import EnvError
from kernel_rllib.search.simulation import Simulator, State
from kernel_rllib.search.trees import Reached, Trees, tree_policy, with_noise

_LEAST = 1e-12
"""The least uniform number that noise is made of: a logarithm of it is taken."""


@dataclass(frozen=True)
class SearchSettings:
    """The settings of a search.

    Attributes:
        simulations: How many nodes a tree grows by.
        exploration: The weight of the network's probabilities against values: c_puct.
        exponent: The power of visits that actions are drawn in proportion to.
        noise_share: The share of noise in the probabilities at the root; 0 for none.
        concentration: The concentration of that noise, a Dirichlet distribution.
        players: 1, or 2 who take turns.
    """

    simulations: int = 30
    exploration: float = 1.0
    exponent: float = 1.5
    noise_share: float = 0.0
    concentration: float = 0.03
    players: int = 1


Evaluate = Callable[[Array], tuple[Array, Array]]
"""Gives, for rows [M, W], logits of actions [M, A] and values [M], from the view of who acts there."""


def search(
    settings: SearchSettings,
    states: Sequence[State],
    rows: Array,
    legal_of: Callable[[Array], Array],
    evaluate: Evaluate,
    simulator: Simulator,
    uniforms: Array | None = None,
) -> tuple[Array, Array]:
    """Return the tree policies [L, A] of some lanes, and what their roots are worth [L].

    Args:
        settings: The settings.
        states: Where the episode of each lane is [L].
        rows: What is observed there [L, W].
        legal_of: Says, for rows [M, W], which actions may be taken [M, A].
        evaluate: The network.
        simulator: What follows.
        uniforms: Numbers from 0 to 1 [L, 2 A] that noise is made of; None for no noise.

    Raises:
        EnvError: If an episode goes on where no action may be taken.
    """
    legal = _some(legal_of(rows))
    priors, values = _predicted(evaluate, rows, legal)
    if uniforms is not None and settings.noise_share:
        noise = dirichlet(uniforms, legal, settings.concentration)
        priors = with_noise(priors, legal, noise, settings.noise_share)
    trees = Trees(priors, legal, settings.simulations, exploration=settings.exploration, players=settings.players)
    places: list[list[State]] = [[state] for state in states]
    for _ in range(settings.simulations):
        edges = trees.select()
        trees_nodes = zip(edges.tree.tolist(), edges.node.tolist(), strict=True)
        found = simulator.follow([places[tree][node] for tree, node in trees_nodes], edges.action)
        reached = _reached(found.rows, found.rewards, found.ended, legal_of, evaluate, priors.shape[1])
        trees.grow(edges, reached)
        for tree, state in zip(edges.tree.tolist(), found.states, strict=True):
            places[tree].append(state)
    return tree_policy(trees.visits, settings.exponent), values


def _reached(
    rows: Array, rewards: Array, ended: Array, legal_of: Callable[[Array], Array], evaluate: Evaluate, actions: int
) -> Reached:
    count = len(rewards)
    values, priors, legal = np.zeros(count), np.zeros((count, actions)), np.zeros((count, actions), bool)
    on = np.flatnonzero(~ended)
    if len(on):
        legal[on] = _some(legal_of(rows[on]))
        priors[on], values[on] = _predicted(evaluate, rows[on], legal[on])
    return Reached(rewards, ended, values, priors, legal)


def _predicted(evaluate: Evaluate, rows: Array, legal: Array) -> tuple[Array, Array]:
    """Return probabilities of the actions that may be taken [M, A], and values [M], in float64."""
    logits, values = evaluate(rows)
    masked = np.where(legal, logits.astype(np.float64), -np.inf)
    powers = np.exp(masked - masked.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True), values.astype(np.float64)


def _some(legal: Array) -> Array:
    if not legal.any(axis=1).all():
        raise EnvError(
            "an episode goes on where action_mask allows no action: end it there, or let the mask have a 1 for a pass"
        )
    return legal


def dirichlet(uniforms: Array, legal: Array, concentration: float) -> Array:
    """Return draws of a Dirichlet distribution over the actions that may be taken [L, A], made of uniforms [L, 2 A].

    It is as gammas in proportion. They are computed as logarithms, as those of a low concentration are tiny: a gamma
    of a is one of a + 1 times u^(1 / a) (Marsaglia and Tsang 2000, section 6).
    """
    first, second = np.split(np.maximum(uniforms.astype(np.float64), _LEAST), 2, axis=1)
    logs = np.log(gammaincinv(concentration + 1.0, np.minimum(first, 1.0 - _LEAST))) + np.log(second) / concentration
    logs = np.where(legal, logs, -np.inf)
    powers = np.exp(logs - logs.max(axis=1, keepdims=True))
    found: Array = powers / powers.sum(axis=1, keepdims=True)
    return found

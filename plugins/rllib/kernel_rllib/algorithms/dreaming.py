"""Dreams of DreamerV3: what the model of the world imagines while the actor acts in it, and returns in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.modules.module import Parameters
from kernel_rllib.modules.symlog import expected
from kernel_rllib.modules.world_model import DreamerNetworks
from kernel_rllib.nn.ops import Ops


@dataclass
class Dream:
    """Holds imagined steps.

    Attributes:
        features: h beside z, of each state [H + 1, N, F].
        actions: The actions in all states but the last [H, N, ...].
        rewards: The rewards for arriving in each state but the first [H, N].
        going_on: The probability that something follows each state [H + 1, N]; of the first it is known, 0 or 1.
        values: The critic's value of each state [H + 1, N].
    """

    features: Array
    actions: Array
    rewards: Array
    going_on: Array
    values: Array

    def weights(self, gamma: float) -> Array:
        """Return how much each state but the last counts [H, N]: how likely there is one, and what it is worth then."""
        later: Array = np.cumprod(self.going_on[:-1] * np.float32(gamma), axis=0) / np.float32(gamma)
        return later.astype(np.float32)

    def returns(self, gamma: float, lambda_: float) -> Array:
        """Return R(t) = r + gamma c ((1 - lambda) v + lambda R(t + 1)), where r, c, v are of the next state [H, N].

        (Equation 6 of the paper.) Of the last state, R is its value.
        """
        found: Array = np.empty_like(self.rewards)
        after = self.values[-1]
        for t in range(len(found) - 1, -1, -1):
            mixed = (1 - lambda_) * self.values[t + 1] + lambda_ * after
            after = found[t] = self.rewards[t] + np.float32(gamma) * self.going_on[t + 1] * mixed
        return found


def dreamer(
    networks: DreamerNetworks,
    distribution: Distribution,
    seen: Callable[[Array], Array],
    starts: Array,
    ended: Array,
    steps: int,
    stream: np.random.Generator,
) -> Callable[[Ops, Parameters], Dream]:
    """Return the function of operations and parameters that dreams; it gives no gradients.

    Args:
        networks: The networks.
        distribution: The distribution of actions.
        seen: The function that returns actions as the model of the world sees them [N, A].
        starts: The features of the states that dreams begin in [N, F].
        ended: Flags of the states that nothing follows [N].
        steps: The number of steps, H.
        stream: The generator of random numbers that actions and states are drawn by.
    """

    def dream(nn: Ops, parameters: Parameters) -> Dream:
        count, split = len(starts), networks.size.gru_units
        noise = distribution.noise
        draw = stream.standard_normal if noise.kind == "normal" else stream.random
        h, z = nn.constant(starts[:, :split]), nn.constant(starts[:, split:])
        features, actions = [starts], []
        for _ in range(steps):
            inputs = networks.choices(nn, parameters, nn.concat([h, z]))
            action = nn.to_numpy(distribution.sample(nn, inputs, draw((count, noise.width), np.float32)))
            h = networks.recurrent(nn, parameters, h, z, nn.constant(seen(action)))
            shares = networks.shares(nn, networks.prior(nn, parameters, h))
            uniforms = stream.random((count, networks.size.categoricals), np.float32)
            z = nn.reshape(nn.constant(networks.drawn(nn, shares, uniforms)), (count, networks.width))
            features.append(nn.to_numpy(nn.concat([h, z])))
            actions.append(action)
        whole = np.stack(features)
        given: Any = nn.constant(whole)
        rewards = expected(nn.to_numpy(networks.reward(nn, parameters, given[1:])))
        going_on = np.array(nn.to_numpy(nn.sigmoid(networks.going_on(nn, parameters, given)))[..., 0])
        going_on[0] = ~ended
        values = expected(nn.to_numpy(networks.critic(nn, parameters, given)))
        return Dream(whole, np.stack(actions), rewards, going_on, values)

    return dream

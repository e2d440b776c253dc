"""The networks of Dreamer: latent dynamics with a memory, an actor and a critic (Hafner et al. 2019, arXiv 1912.01603).

What is remembered is h, of a GRU, and z, which is normal. A step goes from (h, z, action) to the next h. z is drawn by
h alone where it is imagined (the prior), and by h and what is observed where something is (the posterior).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.modules.layers import Dense, Stack, stack
from kernel_rllib.modules.module import Inputs, Module, Outputs, Parameter, Parameters
from kernel_rllib.nn import initializers
from kernel_rllib.nn.ops import Ops

LEAST_STD = 0.1
"""The smallest deviation of z."""
LEAST_ACTION_STD = 1e-4
MEAN_SCALE = 5.0
"""The means of actions, before tanh, are between minus and plus this."""
H, Z = "h", "z"


@dataclass(frozen=True)
class LatentSizes:
    """The sizes of the networks, under RLlib's names.

    Attributes:
        deter_size: The width of h.
        stoch_size: The width of z.
        hidden_size: The width of dense layers.
        depth_size: The depth of convolutions, which rows of numbers do not need.
        action_init_std: The deviation of actions, before tanh, at first.
    """

    deter_size: int = 200
    stoch_size: int = 30
    hidden_size: int = 400
    depth_size: int = 32
    action_init_std: float = 5.0


class LatentDynamics(Module):
    """The dynamics (`world/...`), the actor (`actor/...`) and the critic (`critic/...`).

    Rows of observations are `[observation, last action, last reward]`, as the connector `PreviousSteps` makes them.
    """

    def __init__(self, row: int, actions: int, sizes: LatentSizes | None = None) -> None:
        """Build them.

        Args:
            row: The width of a row of observations.
            actions: The width of actions.
            sizes: The widths of the networks.
        """
        self.sizes = sizes = sizes or LatentSizes()
        self.actions, self.observed = actions, row - actions - 1
        h, z, hidden = sizes.deter_size, sizes.stoch_size, sizes.hidden_size
        self.features = h + z
        self.encoder = _layers("world/encoder", self.observed, [hidden, hidden])
        self.before = _layers("world/before", z + actions, [hidden])
        self.gates = Dense("world/gates", hidden, 3 * h, None, initializers.glorot_uniform())
        self.prior = _head("world/prior", h, [hidden], 2 * z)
        self.posterior = _head("world/posterior", h + hidden, [hidden], 2 * z)
        self.decoder = _head("world/decoder", self.features, [hidden, hidden], self.observed)
        self.reward = _head("world/reward", self.features, [hidden, hidden], 1)
        self.actor = _head("actor", self.features, [hidden] * 4, 2 * actions)
        self.critic = _head("critic", self.features, [hidden] * 3, 1)

    def parameters(self) -> Sequence[Parameter]:
        """Return all parameters: the dynamics', the actor's, the critic's."""
        h = self.sizes.deter_size
        layers: list[Stack | Dense] = [self.encoder, self.before, self.gates, self.prior, self.posterior, self.decoder]
        layers += [self.reward, self.actor, self.critic]
        memory = [
            Parameter("world/memory/weight", (h, 3 * h), initializers.orthogonal()),
            Parameter("world/memory/bias", (3 * h,), initializers.zeros()),
        ]
        return [*memory, *(parameter for layer in layers for parameter in layer.parameters())]

    def state(self) -> Mapping[str, tuple[int, ...]]:
        """Return h and z."""
        return {H: (self.sizes.deter_size,), Z: (self.sizes.stoch_size,)}

    @property
    def noise_width(self) -> int:
        """Return one number for each of z."""
        return self.sizes.stoch_size

    def split(self, rows: Array) -> tuple[Array, Array, Array]:
        """Return observations, last actions, and last rewards, of rows [..., F]."""
        return rows[..., : self.observed], rows[..., self.observed : -1], rows[..., -1]

    def explore(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `action_dist_inputs` [N, 2A] and `state_out`; without noise, z is its mean."""
        observed, actions, _ = self.split(inputs[columns.OBS])
        state, noise = inputs[columns.STATE_IN], inputs.get(columns.NOISE)
        h = self.recurrent(nn, parameters, state[H], state[Z], nn.constant(actions))
        mean, std = self.seen(nn, parameters, h, self.encoder(nn, parameters, nn.constant(observed)))
        z = mean if noise is None else mean + std * nn.constant(noise)
        given = self.choices(nn, parameters, nn.concat([h, z]))
        return {columns.ACTION_DIST_INPUTS: given, columns.STATE_OUT: {H: h, Z: z}}

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return what `explore` does."""
        return self.explore(nn, parameters, inputs)

    # -- parts of a step ----------------------------------------------------------------------------------------------

    def recurrent(self, nn: Ops, parameters: Parameters, h: Any, z: Any, actions: Any) -> Any:
        """Return the next h [N, H]."""
        x = self.gates(nn, parameters, self.before(nn, parameters, nn.concat([z, actions])))
        return nn.gru_cell(x, h, parameters["world/memory/weight"], parameters["world/memory/bias"])

    def imagined(self, nn: Ops, parameters: Parameters, h: Any) -> tuple[Any, Any]:
        """Return means and deviations of z [..., Z] by h alone."""
        return _normal(nn, self.prior(nn, parameters, h))

    def seen(self, nn: Ops, parameters: Parameters, h: Any, encoded: Any) -> tuple[Any, Any]:
        """Return means and deviations of z [..., Z] by h and encoded observations."""
        return _normal(nn, self.posterior(nn, parameters, nn.concat([h, encoded])))

    def choices(self, nn: Ops, parameters: Parameters, features: Any) -> Any:
        """Return means and logarithms of deviations of actions before tanh [N, 2A] (appendix A)."""
        mean, deviation = nn.split(self.actor(nn, parameters, features), 2)
        first = math.log(math.expm1(self.sizes.action_init_std))
        std = nn.softplus(deviation + first) + LEAST_ACTION_STD
        return nn.concat([nn.tanh(mean / MEAN_SCALE) * MEAN_SCALE, nn.log(std)])

    # -- sequences ----------------------------------------------------------------------------------------------------

    def observe(
        self, nn: Ops, parameters: Parameters, rows: Array, firsts: Array, noise: Array
    ) -> tuple[Any, Any, tuple[Any, Any]]:
        """Go through sequences of observations, with nothing remembered before them.

        Args:
            nn: The operations.
            parameters: The parameters.
            rows: Rows [T, B, F].
            firsts: Whether an episode begins [T, B].
            noise: The noise that z is drawn by, standard normal [T, B, Z].

        Returns:
            h [T, B, H], z [T, B, Z], and the means and deviations of the posterior [T, B, Z].
        """
        steps, count = rows.shape[:2]
        observed, actions, _ = self.split(rows)
        encoded = self.encoder(nn, parameters, nn.constant(observed))
        h: Any = nn.constant(np.zeros((count, self.sizes.deter_size)))
        z: Any = nn.constant(np.zeros((count, self.sizes.stoch_size)))
        goes_on = 1.0 - firsts[..., None].astype(np.float64)
        found: list[list[Any]] = [[], [], [], []]
        for t in range(steps):
            if t and firsts[t].any():
                h, z = h * nn.constant(goes_on[t]), z * nn.constant(goes_on[t])
            h = self.recurrent(nn, parameters, h, z, nn.constant(actions[t]))
            mean, std = self.seen(nn, parameters, h, encoded[t])
            z = mean + std * nn.constant(noise[t])
            for kept, value in zip(found, (h, z, mean, std), strict=True):
                kept.append(value)
        hs, zs, means, stds = (nn.stack(kept) for kept in found)
        return hs, zs, (means, stds)


def _normal(nn: Ops, given: Any) -> tuple[Any, Any]:
    mean, deviation = nn.split(given, 2)
    return mean, nn.softplus(deviation) + LEAST_STD


def _layers(name: str, inputs: int, widths: Sequence[int]) -> Stack:
    return stack(name, inputs, widths, "elu", initializers.glorot_uniform())


def _head(name: str, inputs: int, widths: Sequence[int], outputs: int) -> Stack:
    """Return hidden layers, and a linear one."""
    hidden = _layers(name, inputs, widths)
    last = Dense(f"{name}/out", hidden.outputs, outputs, None, initializers.glorot_uniform())
    return Stack((*hidden.layers, last), inputs)

"""The networks of DreamerV3: a model of the world, an actor and a critic (Hafner et al. 2023, arXiv 2301.04104).

What is remembered is h, of a recurrent layer, and z, a row of categorical draws. A step goes from (h, z, action) to the
next h. z is then drawn by h alone where it is imagined, and by h and what is observed where something is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.distributions.categorical import Categorical
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.modules.layers import Dense
from kernel_rllib.modules.module import Inputs, Module, Outputs, Parameter, Parameters
from kernel_rllib.modules.symlog import symlog
from kernel_rllib.nn import initializers
from kernel_rllib.nn.ops import Ops

UNIMIX = 0.01
"""The share of an even distribution in each categorical one (section "World model learning")."""
EPSILON = 1e-3
"""What layer normalisation adds to variances."""
LEAST_STD, MOST_STD = 0.1, 1.0
"""The bounds of the deviation of continuous actions."""
BINS = 255
"""The bins of rewards and values."""
H, Z = "h", "z"


@dataclass(frozen=True)
class Size:
    """The size of all networks.

    Attributes:
        units: The width of dense layers.
        layers: The number of hidden layers of heads and encoder.
        gru_units: The width of h.
        categoricals: The number of categorical draws in z.
        classes: The number of classes of each.
    """

    units: int
    layers: int
    gru_units: int
    categoricals: int
    classes: int


SIZES = {
    "nano": Size(16, 1, 16, 4, 4),
    "micro": Size(32, 1, 32, 8, 8),
    "mini": Size(64, 1, 64, 16, 16),
    "XXS": Size(128, 1, 128, 32, 32),
    "XS": Size(256, 1, 256, 32, 32),
    "S": Size(512, 2, 512, 32, 32),
    "M": Size(640, 3, 1024, 32, 32),
    "L": Size(768, 4, 2048, 32, 32),
    "XL": Size(1024, 5, 4096, 32, 32),
}
"""The sizes by RLlib's names: those of table B.1 of the paper, and smaller ones."""


@dataclass(frozen=True)
class NormDense:
    """A layer without bias, then layer normalisation, then swish where it is hidden.

    Attributes:
        name: The prefix of its parameters' names.
        inputs: The width of what it takes.
        outputs: The width of what it gives.
        hidden: Whether swish follows.
    """

    name: str
    inputs: int
    outputs: int
    hidden: bool = True

    def parameters(self) -> list[Parameter]:
        """Return its parameters."""
        return [
            Parameter(f"{self.name}/weight", (self.inputs, self.outputs), initializers.glorot_uniform()),
            Parameter(f"{self.name}/scale", (self.outputs,), initializers.constant(1.0)),
            Parameter(f"{self.name}/offset", (self.outputs,), initializers.zeros()),
        ]

    def __call__(self, nn: Ops, parameters: Parameters, x: Any) -> Any:
        """Return [..., outputs] for x [..., inputs]."""
        return self.normalised(nn, parameters, nn.linear(x, parameters[f"{self.name}/weight"]))

    def normalised(self, nn: Ops, parameters: Parameters, x: Any) -> Any:
        """Return what follows the product with the weight."""
        scale, offset = parameters[f"{self.name}/scale"], parameters[f"{self.name}/offset"]
        x = nn.layer_norm(x, scale, offset, EPSILON)
        return nn.silu(x) if self.hidden else x


@dataclass(frozen=True)
class OutputHead:
    """Hidden layers, and a linear one.

    Attributes:
        name: The prefix of its parameters' names.
        inputs: The width of what it takes.
        outputs: The width of what it gives.
        size: The widths of its hidden layers.
        gain: The gain of the initial weights of the last layer.
    """

    name: str
    inputs: int
    outputs: int
    size: Size
    gain: float = 1.0

    @property
    def hidden(self) -> list[NormDense]:
        """The hidden layers."""
        units = self.size.units
        return [
            NormDense(f"{self.name}/{number}", units if number else self.inputs, units)
            for number in range(self.size.layers)
        ]

    @property
    def last(self) -> Dense:
        """The linear layer."""
        initial = initializers.glorot_uniform(self.gain) if self.gain else initializers.zeros()
        return Dense(f"{self.name}/out", self.size.units, self.outputs, None, initial)

    def parameters(self) -> list[Parameter]:
        """Return the parameters of all layers."""
        hidden = [parameter for layer in self.hidden for parameter in layer.parameters()]
        return [*hidden, *self.last.parameters()]

    def __call__(self, nn: Ops, parameters: Parameters, x: Any) -> Any:
        """Return [..., outputs] for x [..., inputs]."""
        for layer in self.hidden:
            x = layer(nn, parameters, x)
        return self.last(nn, parameters, x)


class DreamerNetworks(Module):
    """The model of the world (`world/...`), the actor (`actor/...`) and the critic (`critic/...`).

    Rows of observations are `[observation, last action, last reward]`, as the connector `PreviousSteps` makes them.
    """

    def __init__(self, row: int, actions: int, distribution: Distribution, *, size: str, symlogs: bool = True) -> None:
        """Build them.

        Args:
            row: The width of a row of observations.
            actions: The width of the last action in it.
            distribution: The distribution of actions, categorical or normal.
            size: The name of their size.
            symlogs: Whether observations are seen, and predicted, in symlog.
        """
        self.size = size_of = SIZES[size]
        self.distribution, self.actions, self.symlogs = distribution, actions, symlogs
        self.observed = row - actions - 1
        self.width = size_of.categoricals * size_of.classes
        units, h, z = size_of.units, size_of.gru_units, self.width
        self.features = h + z
        self.encoder = [
            NormDense(f"world/encoder/{number}", self.observed if number == 0 else units, units)
            for number in range(size_of.layers)
        ]
        self.before = NormDense("world/before", z + actions, units)
        self.gates = NormDense("world/gates", units + h, 3 * h, hidden=False)
        self.seen = NormDense("world/posterior", h, units)
        self.posterior_out = Dense("world/posterior/out", units, z, None, initializers.glorot_uniform())
        self.prior = OutputHead("world/prior", h, z, Size(units, 1, 0, 0, 0))
        self.decoder = OutputHead("world/decoder", self.features, self.observed, size_of)
        self.reward = OutputHead("world/reward", self.features, BINS, size_of, gain=0.0)
        self.going_on = OutputHead("world/continue", self.features, 1, size_of)
        self.actor = OutputHead("actor", self.features, distribution.parameter_size, size_of)
        self.critic = OutputHead("critic", self.features, BINS, size_of, gain=0.0)

    def parameters(self) -> Sequence[Parameter]:
        """Return all parameters: the world's, the actor's, the critic's."""
        layers: list[NormDense | Dense | OutputHead] = [
            *self.encoder,
            self.before,
            self.gates,
            self.seen,
            self.posterior_out,
        ]
        layers += [self.prior, self.decoder, self.reward, self.going_on, self.actor, self.critic]
        found = [parameter for layer in layers for parameter in layer.parameters()]
        units = self.size.units  # What is observed, and h, have weights of their own: the former is done at once.
        observed = Parameter("world/posterior/observed", (units, units), initializers.glorot_uniform())
        return [observed, *found]

    def state(self) -> Mapping[str, tuple[int, ...]]:
        """Return h and z."""
        return {H: (self.size.gru_units,), Z: (self.width,)}

    @property
    def noise_width(self) -> int:
        """Return one number for each categorical draw."""
        return self.size.categoricals

    def split(self, rows: Array) -> tuple[Array, Array, Array]:
        """Return observations, in symlog where they are seen so, last actions, and last rewards, of rows [..., F]."""
        observed, actions = rows[..., : self.observed], rows[..., self.observed : -1]
        return symlog(observed) if self.symlogs else observed, np.clip(actions, -1.0, 1.0), rows[..., -1]

    def explore(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `action_dist_inputs` [N, P] and `state_out`; without noise, z is the most likely one."""
        observed, actions, _ = self.split(inputs[columns.OBS])
        state = inputs[columns.STATE_IN]
        h = self.recurrent(nn, parameters, state[H], state[Z], nn.constant(actions))
        shares = self.posterior(nn, parameters, h, self.projected(nn, parameters, observed))
        noise = inputs.get(columns.NOISE)
        if noise is None:
            z = nn.one_hot(nn.argmax(shares), self.size.classes)
        else:
            z = self.drawn(nn, shares, 0.5 * (1 + nn.erf(nn.constant(noise) / math.sqrt(2.0))))
        z = nn.reshape(nn.constant(z), (-1, self.width))
        return {
            columns.ACTION_DIST_INPUTS: self.choices(nn, parameters, nn.concat([h, z])),
            columns.STATE_OUT: {H: h, Z: z},
        }

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return what `explore` does."""
        return self.explore(nn, parameters, inputs)

    # -- parts of a step ----------------------------------------------------------------------------------------------

    def projected(self, nn: Ops, parameters: Parameters, observed: Array) -> Any:
        """Return what observations [..., S] bring into the posterior [..., units]."""
        x = nn.constant(observed)
        for layer in self.encoder:
            x = layer(nn, parameters, x)
        return nn.linear(x, parameters["world/posterior/observed"])

    def recurrent(self, nn: Ops, parameters: Parameters, h: Any, z: Any, actions: Any) -> Any:
        """Return the next h [N, H]: a GRU whose gates are normalised, with an update that is rare at first."""
        x = self.before(nn, parameters, nn.concat([z, actions]))
        gates = self.gates(nn, parameters, nn.concat([x, h]))
        reset, candidate, update = nn.split(gates, 3)
        update = nn.sigmoid(update - 1.0)
        return h + update * (nn.tanh(nn.sigmoid(reset) * candidate) - h)

    def posterior(self, nn: Ops, parameters: Parameters, h: Any, projected: Any) -> Any:
        """Return the distributions of z [N, C, K], by h and what observations bring in."""
        x = nn.linear(h, parameters["world/posterior/weight"]) + projected
        x = self.seen.normalised(nn, parameters, x)
        return self.shares(nn, self.posterior_out(nn, parameters, x))

    def shares(self, nn: Ops, logits: Any) -> Any:
        """Return the probabilities of classes [..., C, K] of logits [..., C * K], mixed with an even distribution."""
        size = self.size
        logits = nn.reshape(logits, (*logits.shape[:-1], size.categoricals, size.classes))
        return (1 - UNIMIX) * nn.softmax(logits) + UNIMIX / size.classes

    def drawn(self, nn: Ops, shares: Any, uniforms: Array) -> Array:
        """Return classes, one-hot [N, C, K], drawn by uniform numbers [N, C], as constants."""
        sums = np.cumsum(nn.to_numpy(shares), axis=-1)
        places = np.minimum((sums <= uniforms[..., None]).sum(axis=-1), self.size.classes - 1)
        found: Array = nn.to_numpy(nn.one_hot(nn.constant(places), self.size.classes))
        return found

    def choices(self, nn: Ops, parameters: Parameters, features: Any) -> Any:
        """Return the inputs of the distribution of actions [N, P]."""
        given = self.actor(nn, parameters, features)
        if isinstance(self.distribution, Categorical):
            return nn.log((1 - UNIMIX) * nn.softmax(given) + UNIMIX / given.shape[-1])
        mean, deviation = nn.split(given, 2)
        std = (MOST_STD - LEAST_STD) * nn.sigmoid(deviation + 2.0) + LEAST_STD
        return nn.concat([nn.tanh(mean), nn.log(std)])

    # -- sequences ----------------------------------------------------------------------------------------------------

    def observe(
        self, nn: Ops, parameters: Parameters, rows: Array, firsts: Array, uniforms: Array
    ) -> tuple[Any, Any, Any]:
        """Go through sequences of observations, with nothing remembered before them.

        Args:
            nn: The operations.
            parameters: The parameters.
            rows: Rows [T, B, F].
            firsts: Whether an episode begins [T, B].
            uniforms: The uniform numbers that z is drawn by [T, B, C].

        Returns:
            h [T, B, H], z [T, B, C, K], whose gradients are those of probabilities (straight-through), and these
            probabilities [T, B, C, K].
        """
        steps, count = rows.shape[:2]
        observed, actions, _ = self.split(rows)
        projected = self.projected(nn, parameters, observed)
        h: Any = nn.constant(np.zeros((count, self.size.gru_units)))
        z: Any = nn.constant(np.zeros((count, self.width)))
        goes_on = 1.0 - firsts[..., None].astype(np.float64)
        hs, zs, posteriors = [], [], []
        for t in range(steps):
            if t and firsts[t].any():
                h, z = h * nn.constant(goes_on[t]), z * nn.constant(goes_on[t])
            h = self.recurrent(nn, parameters, h, z, nn.constant(actions[t]))
            shares = self.posterior(nn, parameters, h, projected[t])
            draw = self.drawn(nn, shares, uniforms[t])
            through = nn.constant(draw - nn.to_numpy(shares)) + shares
            z = nn.reshape(through, (count, self.width))
            hs.append(h)
            zs.append(through)
            posteriors.append(shares)
        return nn.stack(hs), nn.stack(zs), nn.stack(posteriors)

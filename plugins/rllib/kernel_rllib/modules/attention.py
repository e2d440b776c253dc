"""A gated transformer over steps: one step while acting, whole sequences while learning.

Parisotto et al., 2019, "Stabilizing Transformers for Reinforcement Learning" (GTrXL): what goes into layers is
normalised, and gates take the place of sums. A step attends to itself and to a fixed number of steps before it, as far
as its episode goes back. Positions are distances (Dai et al., 2019, "Transformer-XL", section 3.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.modules.layers import Dense
from kernel_rllib.modules.module import Inputs, Parameter, Parameters
from kernel_rllib.nn import initializers
from kernel_rllib.nn.ops import Ops

HIDDEN_SCORE = -1e9
"""The score of a step that must not be looked at: its share is 0 after softmax."""


@dataclass(frozen=True)
class AttentionOptions:
    """The options of a transformer.

    Attributes:
        units: The number of blocks in a row.
        width: The width of what passes between them.
        heads: The number of heads of each.
        head_width: The width of a head.
        memory: The number of earlier steps that it attends to when acting.
        memory_learning: The same, when learning.
        dense: The width of the dense layers within a block.
        gate_bias: The initial preference of gates for a layer's input over its output.
    """

    units: int = 1
    width: int = 64
    heads: int = 1
    head_width: int = 32
    memory: int = 50
    memory_learning: int = 50
    dense: int = 32
    gate_bias: float = 2.0


@dataclass(frozen=True)
class Transformer:
    """A transformer layer: its state is the inputs of each block in the last steps, and the number of these steps.

    Attributes:
        name: The prefix of the names of its parameters and of its state.
        inputs: The width of what it takes.
        options: The options of the transformer.
    """

    name: str
    inputs: int
    options: AttentionOptions

    @property
    def outputs(self) -> int:
        """Return the width of what it gives."""
        return self.options.width

    @cached_property
    def embedding(self) -> Dense:
        """The layer before the first block."""
        return Dense(f"{self.name}/embedding", self.inputs, self.options.width, None, initializers.glorot_uniform())

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks, in the order in which they are computed."""
        return tuple(Block(f"{self.name}/{index}", self.options) for index in range(self.options.units))

    def parameters(self) -> list[Parameter]:
        """Return the parameters of all layers."""
        return [*self.embedding.parameters(), *(each for block in self.blocks for each in block.parameters())]

    def state(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of its state for one lane."""
        shape = (self._kept, self.options.width)
        return {**{f"{self.name}_{index}": shape for index in range(self.options.units)}, f"{self.name}_steps": (1,)}

    def __call__(self, nn: Ops, parameters: Parameters, x: Any, inputs: Inputs) -> tuple[Any, dict[str, Any]]:
        """Return what it gives, and its state afterwards; the arguments are those of `LSTM`."""
        single = len(x.shape) == 2
        steps, lanes = (1, x.shape[0]) if single else x.shape[:2]
        state = inputs[columns.STATE_IN]
        filled = np.asarray(nn.to_numpy(state[f"{self.name}_steps"]))[:, 0].astype(np.int64)
        resets = None if single else np.asarray(nn.to_numpy(inputs[columns.RESETS]), bool)
        window = self.options.memory if single else self.options.memory_learning
        mask = nn.constant(visible(window, steps, filled, resets))
        x = self.embedding(nn, parameters, x)
        x = nn.reshape(x, (lanes, 1, self.outputs)) if single else nn.transpose(x, (1, 0, 2))
        after: dict[str, Any] = {}
        for index, block in enumerate(self.blocks):
            name = f"{self.name}_{index}"
            before = nn.constant(state[name])
            after[name] = nn.concat([before, nn.stop_gradient(x)], axis=1)[:, steps:]
            x = block(nn, parameters, x, before[:, self._kept - window :], mask)
        after[f"{self.name}_steps"] = nn.constant(self._filled_after(filled, steps, resets))
        given = x if single else nn.transpose(x, (1, 0, 2))
        return nn.reshape(given, (steps * lanes, self.outputs)), after

    @property
    def _kept(self) -> int:
        """The number of steps that are remembered."""
        return max(self.options.memory, self.options.memory_learning)

    def _filled_after(self, filled: Array, steps: int, resets: Array | None) -> Array:
        """Return how many steps are remembered after some more [N, 1]."""
        found = filled + steps
        if resets is not None:
            since = resets[::-1].argmax(axis=0) + 1
            found = np.where(resets.any(axis=0), since, found)
        kept: Array = np.minimum(found, self._kept).astype(np.float32)
        return kept[:, None]


@dataclass(frozen=True)
class Block:
    """A block of a transformer: attention and dense layers, a gate after each.

    Attributes:
        name: The prefix of its parameters' names.
        options: The options of the transformer.
    """

    name: str
    options: AttentionOptions

    @cached_property
    def gates(self) -> tuple[Gate, Gate]:
        """The gate after attention, and that after the dense layers."""
        width, bias = self.options.width, self.options.gate_bias
        return Gate(f"{self.name}/attention_gate", width, bias), Gate(f"{self.name}/dense_gate", width, bias)

    @cached_property
    def dense(self) -> tuple[Dense, Dense]:
        """The dense layers."""
        width, between = self.options.width, self.options.dense
        begins = initializers.glorot_uniform()
        return (
            Dense(f"{self.name}/dense_0", width, between, "relu", begins),
            Dense(f"{self.name}/dense_1", between, width, "relu", begins),
        )

    def parameters(self) -> list[Parameter]:
        """Return the parameters of all its layers."""
        name, width = self.name, self.options.width
        heads = self.options.heads * self.options.head_width
        begins, zeros, ones = initializers.glorot_uniform(), initializers.zeros(), initializers.constant(1.0)
        found = [
            Parameter(f"{name}/attention_norm/scale", (width,), ones),
            Parameter(f"{name}/attention_norm/bias", (width,), zeros),
            Parameter(f"{name}/query", (width, heads), begins),
            Parameter(f"{name}/key", (width, heads), begins),
            Parameter(f"{name}/value", (width, heads), begins),
            Parameter(f"{name}/distance", (width, heads), begins),
            Parameter(f"{name}/content_bias", (heads,), zeros),
            Parameter(f"{name}/distance_bias", (heads,), zeros),
            Parameter(f"{name}/output", (heads, width), begins),
            Parameter(f"{name}/dense_norm/scale", (width,), ones),
            Parameter(f"{name}/dense_norm/bias", (width,), zeros),
        ]
        return found + [each for layer in (*self.dense, *self.gates) for each in layer.parameters()]

    def __call__(self, nn: Ops, parameters: Parameters, x: Any, before: Any, mask: Any) -> Any:
        """Return what it gives [N, T, width].

        Args:
            nn: The operations.
            parameters: The parameters of the module.
            x: T steps of N lanes [N, T, width].
            before: The inputs of the W steps before [N, W, width].
            mask: Whether each of the T steps attends to each of these W + T, bool [N, 1, T, W + T].
        """
        attention_gate, dense_gate = self.gates
        x = attention_gate(nn, parameters, x, self._attention(nn, parameters, x, before, mask))
        first, last = self.dense
        y = first(nn, parameters, self._normalised(nn, parameters, x, "dense_norm"))
        return dense_gate(nn, parameters, x, last(nn, parameters, y))

    def _attention(self, nn: Ops, parameters: Parameters, x: Any, before: Any, mask: Any) -> Any:
        """Return what attention gives, after its activation [N, T, width].

        The score of a step at a distance is (q + u) k' + (q + v) r', where r is made of the distance, and u and v are
        of all steps alike: Dai et al., 2019, the second of the equations of section 3.3.
        """
        window, steps = before.shape[1], x.shape[1]
        seen = self._normalised(nn, parameters, nn.concat([before, x], axis=1), "attention_norm")
        query = nn.linear(seen[:, window:], parameters[f"{self.name}/query"])
        key, value = (
            self._by_head(nn, nn.linear(seen, parameters[f"{self.name}/{part}"])) for part in ("key", "value")
        )
        distances = nn.constant(encoded_distances(window, self.options.width))
        distance = self._by_head(nn, nn.linear(distances[None], parameters[f"{self.name}/distance"]))
        content = self._by_head(nn, query + parameters[f"{self.name}/content_bias"])
        place = self._by_head(nn, query + parameters[f"{self.name}/distance_bias"])
        scores = nn.matmul(content, nn.transpose(key, (0, 1, 3, 2)))
        scores = scores + moved_right(nn, nn.matmul(place, nn.transpose(distance, (0, 1, 3, 2))))
        scores = nn.where(mask, scores * self.options.head_width**-0.5, HIDDEN_SCORE)
        found = nn.transpose(nn.matmul(nn.softmax(scores), value), (0, 2, 1, 3))
        found = nn.reshape(found, (x.shape[0], steps, self.options.heads * self.options.head_width))
        return nn.linear(found, parameters[f"{self.name}/output"], activation="relu")

    def _by_head(self, nn: Ops, x: Any) -> Any:
        """Return [N, heads, T, head_width] of [N, T, heads * head_width]."""
        shape = (x.shape[0], x.shape[1], self.options.heads, self.options.head_width)
        return nn.transpose(nn.reshape(x, shape), (0, 2, 1, 3))

    def _normalised(self, nn: Ops, parameters: Parameters, x: Any, norm: str) -> Any:
        scale, bias = (parameters[f"{self.name}/{norm}/{part}"] for part in ("scale", "bias"))
        return nn.layer_norm(x, scale, bias)


@dataclass(frozen=True)
class Gate:
    """A gate like that of a GRU, in place of the sum of a layer's input and output.

    r = sigmoid(W_r y + U_r x), z = sigmoid(W_z y + U_z x - b), h = tanh(W_h y + U_h (r * x)), and (1 - z) x + z h:
    section 3.2 of the paper, "Gated-Recurrent-Unit-type gating".

    Attributes:
        name: The prefix of its parameters' names.
        width: The width of all of it.
        bias: The initial value of b: a positive one lets nearly x alone pass at first.
    """

    name: str
    width: int
    bias: float

    def parameters(self) -> list[Parameter]:
        """Return its weights, side by side, and b."""
        begins = initializers.glorot_uniform()
        return [
            Parameter(f"{self.name}/weight_layer", (self.width, 3 * self.width), begins),
            Parameter(f"{self.name}/weight_skipped", (self.width, 2 * self.width), begins),
            Parameter(f"{self.name}/weight_reset", (self.width, self.width), begins),
            Parameter(f"{self.name}/bias", (self.width,), initializers.constant(self.bias)),
        ]

    def __call__(self, nn: Ops, parameters: Parameters, x: Any, y: Any) -> Any:
        """Return [..., width] for x, what went into a layer, and y, what came out."""
        width = self.width
        layer = nn.linear(y, parameters[f"{self.name}/weight_layer"])
        skipped = nn.linear(x, parameters[f"{self.name}/weight_skipped"])
        reset = nn.sigmoid(layer[..., :width] + skipped[..., :width])
        update = nn.sigmoid(layer[..., width : 2 * width] + skipped[..., width:] - parameters[f"{self.name}/bias"])
        candidate = nn.tanh(layer[..., 2 * width :] + nn.linear(reset * x, parameters[f"{self.name}/weight_reset"]))
        return x + update * (candidate - x)


def visible(window: int, steps: int, filled: Array, resets: Array | None = None) -> Array:
    """Return which steps each step attends to: bool [N, 1, T, W + T], those before the T steps first.

    These are itself and the `window` steps before it, if they are remembered, and of the same episode.

    Args:
        window: The largest number of steps before a step that it attends to, W.
        steps: The number of steps, T.
        filled: The number of steps before the first one that are remembered [N].
        resets: Whether an episode begins, bool [T, N]; None for nowhere.
    """
    ahead = np.arange(window + steps) - np.arange(steps)[:, None]
    near = (ahead >= 0) & (ahead <= window)
    remembered = np.arange(window) >= window - filled[:, None]
    if resets is None:
        known = np.concatenate([remembered, np.ones((len(filled), steps), bool)], axis=1)
        found: Array = near & known[:, None, None]
        return found
    episode = resets.cumsum(axis=0).T
    first = (episode == 0)[:, :, None] & remembered[:, None, :]
    same = np.concatenate([first, episode[:, :, None] == episode[:, None, :]], axis=2)
    found = near & same[:, None]
    return found


@lru_cache(maxsize=16)
def encoded_distances(window: int, width: int) -> Array:
    """Return sines and cosines of the distances from `window` down to 0, float32 [window + 1, width].

    Vaswani et al., 2017, "Attention Is All You Need", section 3.5, sines first.
    """
    half = (width + 1) // 2
    angles = np.arange(window, -1, -1.0)[:, None] / 10_000 ** (np.arange(half) / half)
    encoded: Array = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)[:, :width].astype(np.float32)
    return encoded


def moved_right(nn: Ops, scores: Any) -> Any:
    """Return [..., T, W + T] with row t of scores [..., T, W + 1] moved right by t, and zeros around it.

    Rows that are read one entry shorter than they were written begin one entry further right each.
    """
    *before, steps, width = scores.shape
    if steps == 1:
        return scores
    zeros = nn.constant(np.zeros((*before, steps, steps), np.float32))
    longer = width - 1 + steps
    flat = nn.reshape(nn.concat([scores, zeros], axis=-1), (*before, steps * (longer + 1)))
    return nn.reshape(flat[..., : steps * longer], (*before, steps, longer))

"""A causal transformer over returns-to-go, observations and actions: segments while learning, a step while acting.

Chen et al. 2021, Decision Transformer (arXiv 2106.01345). Each step of an episode is three tokens, in this order, and
what was observed predicts the action. Blocks are those of GPT-2 (Radford et al. 2019): what goes into layers is
normalised, and their outputs are added up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.modules.attention import HIDDEN_SCORE
from kernel_rllib.modules.layers import Dense
from kernel_rllib.modules.module import Inputs, Module, Outputs, Parameter, Parameters
from kernel_rllib.nn import initializers
from kernel_rllib.nn.ops import Ops

NEXT_OBSERVATIONS, NEXT_RETURNS = "next_obs_predicted", "next_returns_predicted"
DROPOUT = "dropout"
"""The input that leaves parts of layers out while learning: a function of a shape and a share, or None."""
TOKENS = 3
"""How many tokens a step has: its return-to-go, its observation, its action."""

Dropout = Callable[[tuple[int, ...], float], Array]


@dataclass(frozen=True)
class DecisionTransformerOptions:
    """The options of a decision transformer.

    Attributes:
        steps: The number of steps that it looks at, the present one included.
        horizon: The number of steps of an episode that it tells apart; later ones count as the last of these.
        width: The width of tokens.
        layers: The number of blocks.
        heads: The number of heads of each.
        embedding_dropout: The share of tokens' numbers that are left out while learning.
        layer_dropout: The same of what layers give.
        attention_dropout: The same of attention.
        target: The return that it is to reach where an episode begins.
        return_scale: The number that returns are divided by before they become tokens.
        is_bounded: Whether actions are continuous and from -1 to 1, by tanh.
        is_discrete: Whether actions are numbers from 0, and are given as such.
        predicts_observations: Whether it predicts the next observation as well.
        predicts_returns: Whether it predicts the next return-to-go as well.
        remembers: Whether it has a state; not where steps are only read.
    """

    steps: int = 20
    horizon: int = 1000
    width: int = 128
    layers: int = 2
    heads: int = 1
    embedding_dropout: float = 0.0
    layer_dropout: float = 0.0
    attention_dropout: float = 0.0
    target: float = 0.0
    return_scale: float = 1.0
    is_bounded: bool = False
    is_discrete: bool = True
    predicts_observations: bool = False
    predicts_returns: bool = False
    remembers: bool = True


class DecisionTransformer(Module):
    """Acts so that a return is reached. Its state is the last steps of the episode.

    While acting, a row of observations has the action and the reward of the step before behind it.
    """

    def __init__(self, observations: int, actions: int, options: DecisionTransformerOptions | None = None) -> None:
        """Build it for observations of this width, and so many actions, or actions of so many numbers."""
        self.observations, self.actions = observations, actions
        self.options = options or DecisionTransformerOptions()

    def with_options(self, **changed: Any) -> DecisionTransformer:
        """Return one with the same parameters and other options."""
        return DecisionTransformer(self.observations, self.actions, replace(self.options, **changed))

    @cached_property
    def embeddings(self) -> dict[str, Dense]:
        """The layers that make tokens, by what of."""
        widths = {"return": 1, "observation": self.observations, "action": self.actions}
        return {part: _dense(f"embed_{part}", width, self.options.width) for part, width in widths.items()}

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks, in the order in which they are computed."""
        return tuple(Block(f"block_{index}", self.options) for index in range(self.options.layers))

    @cached_property
    def heads(self) -> dict[str, Dense]:
        """The layers that predict, by what."""
        options = self.options
        found = {columns.ACTION_DIST_INPUTS: _dense("action", options.width, self.actions)}
        if options.predicts_observations:
            found[NEXT_OBSERVATIONS] = _dense("next_observation", options.width, self.observations)
        if options.predicts_returns:
            found[NEXT_RETURNS] = _dense("next_return", options.width, 1)
        return found

    def parameters(self) -> Sequence[Parameter]:
        """Return the parameters of all layers."""
        options = self.options
        dense = [*self.embeddings.values(), *self.heads.values()]
        return [
            Parameter("embed_timestep", (options.horizon, options.width), initializers.normal(0.02)),
            *_norm("embed_norm", options.width),
            *_norm("last_norm", options.width),
            *(parameter for layer in dense for parameter in layer.parameters()),
            *(parameter for block in self.blocks for parameter in block.parameters()),
        ]

    def state(self) -> Mapping[str, tuple[int, ...]]:
        """Return the shapes of its state: the last steps, their numbers, how many there are, and the target."""
        if not self.options.remembers:
            return {}
        steps = self.options.steps
        width = self.observations + self.actions + 1
        return {"context": (steps, width), columns.TIMESTEPS: (steps,), "filled": (1,), "target": (1,)}

    def initial_state(self) -> Mapping[str, Array]:
        """Return no steps, and the target."""
        found = dict(super().initial_state())
        if found:
            found["target"] = np.array([self.options.target], np.float32)
        return found

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return what each step of segments predicts.

        Args:
            nn: The operations.
            parameters: The parameters.
            inputs: Of B segments of T steps `obs` [B, T, O], `actions` [B, T] or [B, T, A], `returns_to_go` and
                `timesteps` [B, T], and `loss_mask` [B, T], which is 0 before an episode begins; and perhaps `dropout`.

        Returns:
            `action_dist_inputs` [B, T, A]; also the next observations [B, T, O] and returns-to-go [B, T], where these
            are predicted.
        """
        actions = inputs[columns.ACTIONS]
        taken = nn.one_hot(actions, self.actions) if self.options.is_discrete else nn.constant(actions)
        returns = nn.constant(inputs[columns.RETURNS_TO_GO] / self.options.return_scale)
        given = nn.constant(inputs[columns.OBS]), taken, nn.expand_dims(returns, -1)
        mask = np.asarray(inputs[columns.LOSS_MASK]) > 0
        tokens = self._tokens(nn, parameters, given, inputs[columns.TIMESTEPS], mask, inputs.get(DROPOUT))
        count, steps = mask.shape
        by_step = nn.reshape(tokens, (count, steps, TOKENS, self.options.width))
        found = {columns.ACTION_DIST_INPUTS: self._predicted(nn, parameters, by_step[:, :, 1])}
        for name, head in self.heads.items():
            if name not in found:
                found[name] = head(nn, parameters, by_step[:, :, 2])
        if NEXT_RETURNS in found:
            found[NEXT_RETURNS] = nn.squeeze(found[NEXT_RETURNS], -1)
        return found

    def explore(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `action_dist_inputs` [N, A] of the present step, and the state afterwards.

        The inputs are `obs` [N, O + A + 1] and the state.
        """
        state = {name: np.asarray(nn.to_numpy(value)) for name, value in inputs[columns.STATE_IN].items()}
        after = self._with_step(state, np.asarray(nn.to_numpy(inputs[columns.OBS])))
        context, split = after["context"], self.observations
        steps = self.options.steps
        mask = np.arange(steps) >= steps - after["filled"]
        given = context[..., :split], context[..., split:-1], context[..., -1:] / self.options.return_scale
        constants = tuple(nn.constant(np.ascontiguousarray(each, dtype=np.float32)) for each in given)
        tokens = self._tokens(nn, parameters, constants, after[columns.TIMESTEPS].astype(np.int64), mask, None)
        return {
            columns.ACTION_DIST_INPUTS: self._predicted(nn, parameters, tokens[:, -2]),
            columns.STATE_OUT: {name: nn.constant(value) for name, value in after.items()},
        }

    def _with_step(self, state: Mapping[str, Array], rows: Array) -> dict[str, Array]:
        """Return the state with the step that begins now, whose action is not known yet.

        What a row has behind what is observed belongs to the step before: its action, and the reward, which is taken
        from what is still to be reached.
        """
        split = self.observations
        context = np.concatenate([state["context"][:, 1:], np.zeros_like(state["context"][:, :1])], axis=1)
        timesteps = np.concatenate(
            [state[columns.TIMESTEPS][:, 1:], np.zeros_like(state[columns.TIMESTEPS][:, :1])], axis=1
        )
        begun = state["filled"][:, 0] > 0
        if context.shape[1] > 1:
            context[:, -2, split:-1] = np.where(begun[:, None], rows[:, split:-1], 0)
        context[:, -1, :split] = rows[:, :split]
        context[:, -1, -1] = np.where(begun, state["context"][:, -1, -1] - rows[:, -1], state["target"][:, 0])
        last = np.minimum(state[columns.TIMESTEPS][:, -1] + 1, self.options.horizon - 1)
        timesteps[:, -1] = np.where(begun, last, 0)
        filled = np.minimum(state["filled"] + 1, self.options.steps)
        return {"context": context, columns.TIMESTEPS: timesteps, "filled": filled, "target": state["target"].copy()}

    def _tokens(
        self,
        nn: Ops,
        parameters: Parameters,
        given: tuple[Any, Any, Any],
        timesteps: Array,
        mask: Array,
        dropout: Dropout | None,
    ) -> Any:
        """Return what the last block makes of tokens [B, 3 T, width].

        Args:
            nn: The operations.
            parameters: The parameters.
            given: Observations [B, T, O], actions [B, T, A] and returns-to-go [B, T, 1].
            timesteps: The numbers of steps in their episodes [B, T].
            mask: Whether there is a step [B, T].
            dropout: Draws what is left out.
        """
        count, steps = mask.shape
        when = nn.rows(parameters["embed_timestep"], np.minimum(timesteps, self.options.horizon - 1))
        parts = zip(("return", "observation", "action"), (given[2], given[0], given[1]), strict=True)
        embedded = [self.embeddings[part](nn, parameters, each) + when for part, each in parts]
        x = nn.reshape(nn.stack(embedded, axis=2), (count, TOKENS * steps, self.options.width))
        x = _normalised(nn, parameters, x, "embed_norm")
        x = dropped(nn, x, self.options.embedding_dropout, dropout)
        known = np.repeat(mask, TOKENS, axis=1)
        visible = np.tril(np.ones((TOKENS * steps,) * 2, bool)) & known[:, None, None, :]
        for block in self.blocks:
            x = block(nn, parameters, x, nn.constant(visible), dropout)
        return _normalised(nn, parameters, x, "last_norm")

    def _predicted(self, nn: Ops, parameters: Parameters, tokens: Any) -> Any:
        found = self.heads[columns.ACTION_DIST_INPUTS](nn, parameters, tokens)
        return nn.tanh(found) if self.options.is_bounded else found


@dataclass(frozen=True)
class Block:
    """A block of a transformer: attention and dense layers, whose outputs are added to what went in.

    Attributes:
        name: The prefix of its parameters' names.
        options: The options of the transformer.
    """

    name: str
    options: DecisionTransformerOptions

    @cached_property
    def layers(self) -> dict[str, Dense]:
        """Its dense layers by their names."""
        width = self.options.width
        widths = {"attend": (width, 3 * width), "attended": (width, width), "dense": (width, 4 * width)}
        found = {name: _dense(f"{self.name}/{name}", *each) for name, each in widths.items()}
        found["output"] = _dense(f"{self.name}/output", 4 * width, width)
        return found

    def parameters(self) -> list[Parameter]:
        """Return the parameters of all its layers."""
        norms = [each for part in ("attend", "dense") for each in _norm(f"{self.name}/{part}_norm", self.options.width)]
        return norms + [each for layer in self.layers.values() for each in layer.parameters()]

    def __call__(self, nn: Ops, parameters: Parameters, x: Any, visible: Any, dropout: Dropout | None) -> Any:
        """Return what it gives [B, T, width] for x [B, T, width]; `visible` [B, 1, T, T] says what each attends to."""
        layers, share = self.layers, self.options.layer_dropout
        seen = _normalised(nn, parameters, x, f"{self.name}/attend_norm")
        attended = layers["attended"](nn, parameters, self._attention(nn, parameters, seen, visible, dropout))
        x = x + dropped(nn, attended, share, dropout)
        y = layers["dense"](nn, parameters, _normalised(nn, parameters, x, f"{self.name}/dense_norm"))
        return x + dropped(nn, layers["output"](nn, parameters, nn.gelu(y)), share, dropout)

    def _attention(self, nn: Ops, parameters: Parameters, x: Any, visible: Any, dropout: Dropout | None) -> Any:
        count, steps, width = x.shape
        heads = self.options.heads
        made = self.layers["attend"](nn, parameters, x)
        query, key, value = (
            nn.transpose(nn.reshape(part, (count, steps, heads, width // heads)), (0, 2, 1, 3))
            for part in nn.split(made, 3)
        )
        scores = nn.matmul(query, nn.transpose(key, (0, 1, 3, 2))) * (width // heads) ** -0.5
        shares = nn.softmax(nn.where(visible, scores, HIDDEN_SCORE))
        shares = dropped(nn, shares, self.options.attention_dropout, dropout)
        found = nn.transpose(nn.matmul(shares, value), (0, 2, 1, 3))
        return nn.reshape(found, (count, steps, width))


def dropped(nn: Ops, x: Any, share: float, dropout: Dropout | None) -> Any:
    """Return x with a share of its numbers left out, and the others as much larger (Srivastava et al. 2014)."""
    if dropout is None or not share:
        return x
    return x * nn.constant(dropout(tuple(x.shape), share))


def _dense(name: str, inputs: int, outputs: int) -> Dense:
    return Dense(name, inputs, outputs, None, initializers.normal(0.02))


def _norm(name: str, width: int) -> list[Parameter]:
    ones, zeros = initializers.constant(1.0), initializers.zeros()
    return [Parameter(f"{name}/scale", (width,), ones), Parameter(f"{name}/bias", (width,), zeros)]


def _normalised(nn: Ops, parameters: Parameters, x: Any, norm: str) -> Any:
    return nn.layer_norm(x, parameters[f"{norm}/scale"], parameters[f"{norm}/bias"])

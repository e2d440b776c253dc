"""The module of Q-learning in groups: one network for all agents, and a mixer of their values.

An observation is a row in which the parts of the agents stand side by side: what an agent sees, which actions it may
take, and the global state, if environments tell these (`GroupLayout`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.modules.layers import torch_dense, torch_stack
from kernel_rllib.modules.mixers import Mixer, MonotonicMixer, NoMixer, SumMixer
from kernel_rllib.modules.module import Inputs, Module, Outputs, Parameter, Parameters
from kernel_rllib.modules.recurrent import GRU
from kernel_rllib.nn.ops import Ops

MIXER = "mixer"
"""The prefix of the names of the mixer's parameters."""


@dataclass(frozen=True)
class GroupLayout:
    """The layout of a group's rows.

    Attributes:
        agents: The number of agents.
        width: The number of columns of each.
        obs: The first and the last but one column of what an agent sees, among its own.
        action_mask: The same of the flags of actions that it may take; None: it may take all.
        state: The same of the global state, of which the first agent's counts; None: it is what all agents see.
    """

    agents: int
    width: int
    obs: tuple[int, int]
    action_mask: tuple[int, int] | None = None
    state: tuple[int, int] | None = None

    @property
    def state_width(self) -> int:
        """Return the width of the global state."""
        if self.state is None:
            return self.agents * (self.obs[1] - self.obs[0])
        return self.state[1] - self.state[0]

    def by_agent(self, rows: Array) -> Array:
        """Return rows [..., agents * width] as [..., agents, width]."""
        return np.asarray(rows).reshape(*rows.shape[:-1], self.agents, self.width)

    def seen(self, rows: Array) -> Array:
        """Return what agents see [..., agents, S] of rows."""
        return self.by_agent(rows)[..., slice(*self.obs)]

    def allowed(self, rows: Array, actions: int) -> Array:
        """Return which actions agents may take [..., agents, actions] of rows."""
        parts = self.by_agent(rows)
        if self.action_mask is None:
            return np.ones((*parts.shape[:-1], actions), bool)
        found: Array = parts[..., slice(*self.action_mask)] > 0.5
        return found

    def states(self, rows: Array) -> Array:
        """Return the global states [..., S] of rows."""
        if self.state is None:
            return self.seen(rows).reshape(*rows.shape[:-1], self.state_width)
        return self.by_agent(rows)[..., 0, slice(*self.state)]


@dataclass(frozen=True)
class GroupQOptions:
    """The options of the networks.

    Attributes:
        hidden: The widths of the agents' dense layers.
        activation: The name of their activation.
        cells: The width of the GRU that follows them; 0 for none: agents remember nothing then.
        mixer: `"qmix"`, `"vdn"`, or None for agents that learn each for itself.
        mixing_width: The width of the mixing network of QMIX.
    """

    hidden: tuple[int, ...] = (64,)
    activation: str = "relu"
    cells: int = 64
    mixer: Literal["qmix", "vdn"] | None = "qmix"
    mixing_width: int = 32


class GroupQNetwork(Module):
    """Values of all actions of all agents of a group, and the value of the group."""

    def __init__(self, layout: GroupLayout, actions: int, options: GroupQOptions | None = None) -> None:
        """Build it for observations that are laid out so, and agents with this many actions each."""
        self.layout, self.actions = layout, actions
        self.options = options = options or GroupQOptions()
        self.body = torch_stack("body", layout.obs[1] - layout.obs[0], options.hidden, options.activation)
        self.memory = GRU("memory", self.body.outputs, options.cells) if options.cells else None
        self.head = torch_dense("head", options.cells or self.body.outputs, actions, None)
        self.mixer: Mixer = _mixer(layout, options)

    def parameters(self) -> Sequence[Parameter]:
        """Return all its parameters."""
        memory = self.memory.parameters() if self.memory else ()
        return [*self.body.parameters(), *memory, *self.head.parameters(), *self.mixer.parameters()]

    def state(self) -> Mapping[str, tuple[int, ...]]:
        """Return what the agents of a group remember, as shapes [agents, cells]."""
        remembered = self.memory.state() if self.memory else {}
        return {name: (self.layout.agents, *shape) for name, shape in remembered.items()}

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `q_values` [N, agents, A] of all actions, whether agents may take them or not.

        Of several steps, `obs` is [T, L, ...], and rows are in the order of the steps, T * L of them.
        """
        values, state = self._values(nn, parameters, inputs)
        return {columns.Q_VALUES: values, **({columns.STATE_OUT: state} if state else {})}

    def explore(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `q_values` [N, agents, A], which are -inf for actions that an agent may not take now."""
        outputs = self.train(nn, parameters, inputs)
        if self.layout.action_mask is not None:
            allowed = self.layout.allowed(inputs[columns.OBS], self.actions)
            outputs[columns.Q_VALUES] = np.where(allowed, nn.to_numpy(outputs[columns.Q_VALUES]), np.float32(-np.inf))
        return outputs

    def group_values(self, nn: Ops, parameters: Parameters, values: Any, obs: Array) -> Any:
        """Return the values of groups [N, K] for those of the actions that agents chose.

        Args:
            nn: The operations.
            parameters: The parameters.
            values: The values that the agents' network gave for the actions chosen [N, agents].
            obs: The observations, rows [..., width], N in all.

        Returns:
            K is 1, or the number of agents where each learns for itself.
        """
        states = self.layout.states(obs)
        return self.mixer(nn, parameters, values, nn.constant(states.reshape(-1, states.shape[-1])))

    def _values(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> tuple[Any, dict[str, Any]]:
        seen, agents = self.layout.seen(inputs[columns.OBS]), self.layout.agents
        groups = int(np.prod(seen.shape[:-2]))
        state: dict[str, Any] = {}
        lanes = seen.shape[-3] * agents
        rows = seen.reshape(-1, lanes, seen.shape[-1]) if seen.ndim == 4 else seen.reshape(lanes, seen.shape[-1])
        if self.memory is None:
            rows = rows.reshape(-1, rows.shape[-1])
        features = self.body(nn, parameters, nn.constant(rows))
        if self.memory is not None:
            before = {name: np.reshape(each, (lanes, -1)) for name, each in inputs[columns.STATE_IN].items()}
            remembered: dict[str, Any] = {columns.STATE_IN: before}
            if seen.ndim == 4:
                remembered[columns.RESETS] = np.repeat(inputs[columns.RESETS], agents, axis=1)
            features, state = self.memory(nn, parameters, features, remembered)
        values = nn.reshape(self.head(nn, parameters, features), (groups, agents, self.actions))
        after = {name: nn.reshape(each, (lanes // agents, agents, -1)) for name, each in state.items()}
        return values, after


def _mixer(layout: GroupLayout, options: GroupQOptions) -> Mixer:
    if options.mixer == "qmix":
        return MonotonicMixer(MIXER, layout.agents, layout.state_width, options.mixing_width)
    return SumMixer() if options.mixer == "vdn" else NoMixer()

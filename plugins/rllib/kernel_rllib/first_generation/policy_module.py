"""A user's policy as a module: runners ask it for actions, and nothing else of it is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import Space

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.distributions.distribution import Noise
from kernel_rllib.errors import ModuleError
from kernel_rllib.first_generation.policy import Policy
from kernel_rllib.modules.module import Inputs, Module, Outputs, Parameter, Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.spaces.action_rows import rows_of
from kernel_rllib.spaces.encode import Encoder


class UserPolicyModule(Module):
    """Acts by a policy. Where it is sent, another policy of the class is made, and gets the weights of this one."""

    row_block = 1

    def __init__(
        self, policy_class: type[Policy], observation_space: Space[Any], action_space: Space[Any], config: Any
    ) -> None:
        """Make the policy; the arguments are those of its class."""
        self._made_of = (policy_class, observation_space, action_space, config)
        self.policy = policy_class(observation_space, action_space, config)
        self._encoder = Encoder(action_space, policy_class.__name__, "action", "action_space")
        self.first = tuple(self._number(each) for each in self.policy.get_initial_state())

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_elsewhere, (*self._made_of, self.policy.get_weights())

    def parameters(self) -> Sequence[Parameter]:
        """Return none: what it has learned is the policy's own."""
        return []

    def state(self) -> Mapping[str, tuple[int, ...]]:
        """Return the shapes of what the policy remembers."""
        return {str(index): each.shape for index, each in enumerate(self.first)}

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return what the policy does, as while exploring."""
        return self._ask(inputs, explore=True)

    def infer(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return what the policy does where nothing is to be explored."""
        return self._ask(inputs, explore=False)

    def initial_state(self) -> Mapping[str, Array]:
        """Return what the policy remembers when an episode begins."""
        return {str(index): each for index, each in enumerate(self.first)}

    def _ask(self, inputs: Inputs, explore: bool) -> Outputs:
        obs = inputs[columns.OBS]
        before = list(inputs.get(columns.STATE_IN, {}).values())
        actions, states, extra = self.policy.compute_actions(obs, before, explore=explore)
        if len(states) != len(self.first):
            raise ModuleError(
                f"{type(self.policy).__name__}.compute_actions() returned {len(states)} things to remember, but "
                f"get_initial_state() has {len(self.first)}: return a column for each"
            )
        outputs: Outputs = {columns.ACTIONS: self._rows(actions, len(obs))}
        after = [np.asarray(each, np.float32) for each in states]
        for index, value in enumerate(after):
            outputs[f"{columns.STATE_OUT}_{index}"] = value
        if after:
            outputs[columns.STATE_OUT] = {str(index): value for index, value in enumerate(after)}
        return outputs | {name: _column(values) for name, values in extra.items()}

    def _rows(self, actions: Any, count: int) -> Array:
        if len(actions) != count and not isinstance(actions, (dict, tuple)):
            raise ModuleError(
                f"{type(self.policy).__name__}.compute_actions() returned {len(actions)} actions for {count} "
                "observations: return one for each"
            )
        if isinstance(actions, (dict, tuple)):
            return rows_of(self._made_of[2], actions)
        return rows_of(self._made_of[2], self._encoder.batch(list(actions), "compute_actions"))

    def _number(self, value: Any) -> Array:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise ModuleError(
                f"{type(self.policy).__name__}.get_initial_state() has {value!r} in it: only numbers and arrays of "
                "numbers can be remembered from step to step"
            )
        return array.astype(np.float32)


class PolicyActions:
    """Takes the actions of a `UserPolicyModule`, and records all else that it gave."""

    noise = Noise("uniform", 0)

    def __init__(self) -> None:
        """Record what the policy gives, whatever that is: it is known when it has been asked once."""
        self._found: list[str] = []

    @property
    def keeps(self) -> Any:
        """The columns that it records. A fragment holds on to this list, and finds new names in it."""
        return self._found

    def choose(self, nn: Ops, outputs: Mapping[str, Any], noise: Array, timestep: int) -> Array:
        """Return the actions that the policy chose."""
        for name in outputs:
            if name not in (columns.ACTIONS, columns.STATE_OUT) and name not in self._found:
                self._found.append(name)
        actions: Array = outputs[columns.ACTIONS]
        return actions

    def best(self, nn: Ops, outputs: Mapping[str, Any]) -> Array:
        """Return the actions that the policy chose."""
        return self.choose(nn, outputs, np.empty(0), 0)

    def recorded(self, nn: Ops, chosen: Mapping[str, Array]) -> dict[str, Array]:
        """Return no further columns."""
        return {}


def _made_elsewhere(
    policy_class: type[Policy], observation_space: Space[Any], action_space: Space[Any], config: Any, weights: Any
) -> UserPolicyModule:
    module = UserPolicyModule(policy_class, observation_space, action_space, config)
    module.policy.set_weights(weights)
    return module


def _column(values: Any) -> Array:
    column = np.asarray(values)
    return column.astype(object) if column.dtype.kind in "US" else column

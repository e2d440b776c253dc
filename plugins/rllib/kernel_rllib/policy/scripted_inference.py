"""Acting outside of training by a policy of the user's own class: it is asked for each observation, one at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.connectors.preprocessors import preprocessor_of
from kernel_rllib.data import columns
from kernel_rllib.runners.scripted_lanes import ScriptedBlueprint, action_of
from kernel_rllib.spaces.encode import Encoder


class ScriptedInference:
    """Computes actions by a scripted object, as `Inference` does by a module."""

    def __init__(self, policy: Any, blueprint: ScriptedBlueprint, stream: np.random.Generator) -> None:
        """Ask an object.

        Args:
            policy: The object.
            blueprint: The blueprint that has made it.
            stream: The generator of random numbers that it gets where it has an attribute `stream`.
        """
        self._policy, self._stream = policy, stream
        self._encoder = Encoder(blueprint.observation_space, "policy", verb="got")
        self._preprocessor = preprocessor_of(blueprint.observation_space, None, {})

    def initial_state(self) -> list[Any]:
        """Return what it remembers at first."""
        initial = getattr(self._policy, "get_initial_state", None)
        return list(initial()) if callable(initial) else []

    def actions(
        self,
        observations: Sequence[Any],
        *,
        explore: bool,
        timestep: int = 0,
        state: Mapping[str, Array] | None = None,
        previous: Any = None,
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return an action for each observation, and what is remembered after it, as `Inference.actions` does.

        Args:
            observations: The observations, as environments return them.
            explore: Whether actions are drawn as while training: it is told so.
            timestep: The number of steps that the run has made.
            state: The values that it remembers, arrays [N, ...] by name; None for the initial ones.
            previous: Accepted; it is not told of the step before.

        Raises:
            SpaceError: If an observation is not of the space.
        """
        if hasattr(self._policy, "stream"):
            self._policy.stream = self._stream
        found, after = [], []
        for at, observation in enumerate(observations):
            row = self._preprocessor.rows(self._encoder.batch([observation], "compute_actions"))
            held = [value[at] for value in state.values()] if state else self.initial_state()
            action, remembered = action_of(self._policy, row, held, timestep, explore=explore)
            found.append(action)
            after.append(remembered)
        if not after or not after[0]:
            return found, {}
        return found, {columns.STATE_OUT: {str(at): list(values) for at, values in enumerate(zip(*after, strict=True))}}

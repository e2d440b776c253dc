"""The exploration of a policy, as programs ask it by hand: `policy.exploration.get_exploration_action(...)`."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.errors import RLlibError
from kernel_rllib.exploration.exploration import Exploration, NoiseProcess
from kernel_rllib.policy.action_distribution import ActionDistribution, ops_of


class PolicyExploration:
    """Chooses actions for what a model puts out, as runners do. Each call is the first step of an episode."""

    def __init__(self, exploration: Exploration, stream: np.random.Generator) -> None:
        """Choose as this exploration does, with noise of this stream."""
        self._exploration, self._stream = exploration, stream
        self.last_timestep = 0
        """The number of steps of the run at the last call, as far as it is known here."""

    def get_exploration_action(
        self,
        distribution_inputs: Any = None,
        action_dist_class: Any = None,
        model: Any = None,
        explore: bool = True,
        timestep: int | None = None,
        *,
        action_distribution: ActionDistribution | None = None,
    ) -> tuple[Array, Array]:
        """Return actions [N, ...], and their log-likelihoods [N]; zeros of an exploration that knows none.

        Args:
            distribution_inputs: The outputs of the model [N, P]: parameters of the distribution, or values of actions.
            action_dist_class: Accepted; the policy's is the one that is drawn from.
            model: Accepted, as older programs pass it.
            explore: Whether to explore; otherwise the best actions are returned.
            timestep: The number of steps that the run has made, from which calls count on; None for one more than
                before.
            action_distribution: The same as `distribution_inputs`, as newer programs pass it.

        Raises:
            RLlibError: If neither is given.
        """
        given = distribution_inputs if action_distribution is None else action_distribution.inputs
        if given is None:
            raise RLlibError(
                "get_exploration_action was given nothing to choose by: give distribution_inputs, what the model "
                "returned, or action_distribution, a policy.dist_class of it"
            )
        self.last_timestep = self.last_timestep + 1 if timestep is None else int(timestep)
        nn = ops_of(given)
        inputs = given if hasattr(given, "dtype") else np.asarray(given, np.float32)
        outputs = {columns.ACTION_DIST_INPUTS: inputs, columns.Q_VALUES: inputs}
        asked = self._exploration
        actions = asked.choose(nn, outputs, self._noise(len(inputs)), self.last_timestep) if explore else None
        actions = asked.best(nn, outputs) if actions is None else actions
        found = outputs.get(columns.ACTION_LOGP)
        if found is None:
            chosen = {columns.ACTION_DIST_INPUTS: inputs, columns.ACTIONS: actions}
            found = asked.recorded(nn, chosen).get(columns.ACTION_LOGP)
        return actions, np.zeros(len(inputs), np.float32) if found is None else found

    def get_state(self) -> dict[str, Any]:
        """Return how far it is, and what it says of itself: epsilon or the scale of its noise."""
        says = getattr(self._exploration, "info", None)
        return {**({} if says is None else says(self.last_timestep)), "last_timestep": self.last_timestep}

    get_info = get_state

    def set_state(self, state: dict[str, Any]) -> None:
        """Count calls on from what `get_state` returned."""
        self.last_timestep = int(state["last_timestep"])

    def _noise(self, count: int) -> Array:
        asked = self._exploration.noise
        draw = self._stream.standard_normal if asked.kind == "normal" else self._stream.random
        noise: Array = draw((count, asked.width), np.float32)
        if isinstance(self._exploration, NoiseProcess):
            begins = {name: np.zeros((count, *shape), np.float32) for name, shape in self._exploration.memory().items()}
            noise = self._exploration.advance(begins, noise, self.last_timestep)
        return noise

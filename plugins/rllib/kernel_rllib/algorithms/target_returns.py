"""Acting by hand so that a return is reached, as RLlib's Decision Transformer lets programs do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernel_rllib.data import columns
from kernel_rllib.errors import SpaceError
from kernel_rllib.modules.module import Module
from kernel_rllib.training.algorithm import Algorithm

_STATE = "state_in_"


class TargetReturns(Algorithm):
    """Keeps what an episode has done so far in dicts that a program passes on from step to step.

    input_dict = algorithm.get_initial_input_dict(observation)
    action, _, extra = algorithm.compute_single_action(input_dict=input_dict, full_fetch=True)
    input_dict = algorithm.get_next_input_dict(input_dict, action, reward, next_observation, extra)
    """

    def get_initial_input_dict(self, observation: Any, target_return: float | None = None) -> dict[str, Any]:
        """Return what `compute_single_action` takes as `input_dict` in the first step of an episode.

        Args:
            observation: The first observation of the episode.
            target_return: The return to be reached by the end of the episode; None for the one of the settings.
        """
        module: Module = self.learner.module
        state = {name: np.array(value) for name, value in module.initial_state().items()}
        if target_return is not None:
            state["target"] = np.array([target_return], np.float32)
        numbered = {f"{_STATE}{number}": value for number, value in enumerate(state.values())}
        return {columns.OBS: observation, **numbered}

    def get_next_input_dict(
        self,
        input_dict: Mapping[str, Any],
        action: Any,
        reward: float,
        next_obs: Any,
        extra_action_out: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Return what `compute_single_action` takes in the next step.

        Args:
            input_dict: The `input_dict` of this step.
            action: The action of this step, as `compute_single_action` returned it.
            reward: The environment's reward for that action.
            next_obs: The observation after that action.
            extra_action_out: The dict of further outputs that `compute_single_action` returns with `full_fetch=True`.

        Raises:
            SpaceError: If `extra_action_out` has no state.
        """
        states = {name.replace("out", "in"): value for name, value in extra_action_out.items() if "state_out_" in name}
        if not states:
            raise SpaceError(
                "extra_action_out has no state_out_0: give the third value that compute_single_action(..., "
                "full_fetch=True) returned"
            )
        return {
            **input_dict,
            columns.OBS: next_obs,
            columns.PREVIOUS_ACTIONS: action,
            columns.PREVIOUS_REWARDS: float(reward),
            **states,
        }

    def compute_single_action(self, observation: Any = None, state: Any = None, **further: Any) -> Any:
        """Return the action for one observation; see `Algorithm`. `full_fetch`: the last value has the state, too."""
        found = super().compute_single_action(observation, state, **further)
        if not isinstance(found, tuple) or len(found) != 3 or not isinstance(found[2], dict):
            return found
        action, remembered, extra = found
        return action, remembered, {**extra, **{f"state_out_{at}": value for at, value in enumerate(remembered)}}

"""Two agents, two steps: the smallest game in which a value that is a sum of the agents' misses the best joint action.

Rashid et al. 2018, "QMIX: monotonic value function factorisation for deep multi-agent reinforcement learning",
section 5 and table 1. In the first step agent 0 chooses matrix A, where every joint action is worth 7, or matrix B,
which is worth 0, 1, 1 and 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from kernel_rllib.envs.multi_agent import ALL, Dicts, MultiAgentEnv

_MATRIX_A = np.full((2, 2), 7.0)
_MATRIX_B = np.array([[0.0, 1.0], [1.0, 8.0]])
_STATES = 3


class TwoStepGame(MultiAgentEnv):
    """The game of agents 0 and 1, who share its rewards.

    env_config: `one_hot_state_encoding` (False: Discrete(6), the state and the agent in one number; True: the state
    one-hot, and the number of the agent), `separate_state_space` (False; True: {"obs": ..., "state": ...}, which
    mixing networks need), `actions_are_logits` (False; True: an action is a Box of two logits).
    """

    def __init__(self, env_config: Mapping[str, Any] | None = None) -> None:
        config = env_config or {}
        self._one_hot = bool(config.get("one_hot_state_encoding", False))
        self._with_state = bool(config.get("separate_state_space", False))
        self._logits = bool(config.get("actions_are_logits", False))
        self.agents = self.possible_agents = [0, 1]
        seen: Space[Any] = spaces.Discrete(2 * _STATES)
        if self._one_hot:
            seen = spaces.Box(0.0, 2.0, (_STATES + 1,), np.float32)
        if self._with_state:
            seen = spaces.Dict({"obs": seen, "state": spaces.Box(0.0, 1.0, (_STATES,), np.float32)})
        self.observation_space = seen
        self.action_space = spaces.Box(0.0, 1.0, (2,), np.float32) if self._logits else spaces.Discrete(2)
        self._state = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin in the first state."""
        self._state = 0
        return self._seen(), {}

    def step(self, action_dict: Mapping[Any, Any]) -> Dicts:  # type: ignore[override]
        """Choose a matrix, then a place in it; each agent gets half of what it is worth."""
        first, second = (int(np.argmax(action)) if self._logits else int(action) for action in
                         (action_dict[0], action_dict[1]))  # fmt: skip
        if self._state == 0:
            self._state, worth = 1 + first, 0.0
        else:
            matrix = _MATRIX_A if self._state == 1 else _MATRIX_B
            worth = float(matrix[first, second])
            self._state = 0
            over = {0: True, 1: True, ALL: True}
            return self._seen(), {0: worth / 2, 1: worth / 2}, over, {ALL: False}, {}
        return self._seen(), {0: worth / 2, 1: worth / 2}, {ALL: False}, {ALL: False}, {}

    def _seen(self) -> dict[Any, Any]:
        return {agent: self._seen_by(agent) for agent in self.agents}

    def _seen_by(self, agent: int) -> Any:
        state = np.eye(_STATES, dtype=np.float32)[self._state]
        seen: Any = self._state + _STATES * agent
        if self._one_hot:
            seen = np.append(state, np.float32(agent + 1))
        return {"obs": seen, "state": state} if self._with_state else seen


def grouped_two_step_game(env_config: Mapping[str, Any] | None = None) -> MultiAgentEnv:
    """Return the game with its two agents in one group, "group_1", and the state apart, as QMIX takes it."""
    settings = {"separate_state_space": True, "one_hot_state_encoding": True, **(env_config or {})}
    return TwoStepGame(settings).with_agent_groups({"group_1": [0, 1]})

"""Two players who throw at the same time, again and again; each sees what the other threw last.

The only equilibrium is to throw each a third of the time, at random.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.multi_agent import ALL, Dicts, MultiAgentEnv

ROCK, PAPER, SCISSORS, NOTHING = range(4)
PAYOFF = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
"""The reward of the first player, by the choices of both."""


class RockPaperScissors(MultiAgentEnv):
    """The game of "player_0" and "player_1". Seen is what the other threw last (3: nothing yet).

    env_config: `num_rounds` (10), `players` (the agents' names).
    """

    def __init__(self, env_config: Mapping[str, Any] | None = None) -> None:
        config = env_config or {}
        self._rounds = int(config.get("num_rounds", 10))
        self.agents = self.possible_agents = list(config.get("players", ("player_0", "player_1")))
        self.observation_space = spaces.Discrete(4)
        self.action_space = spaces.Discrete(3)
        self._played = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin a match."""
        self._played = 0
        return dict.fromkeys(self.agents, NOTHING), {}

    def step(self, action_dict: Mapping[Any, Any]) -> Dicts:  # type: ignore[override]
        """Play a round."""
        one, other = self.agents
        thrown, answered = int(action_dict[one]), int(action_dict[other])
        won = float(PAYOFF[thrown, answered])
        self._played += 1
        over = self._played >= self._rounds
        obs = {one: answered, other: thrown}
        return obs, {one: won, other: -won}, {ALL: over}, {ALL: False}, {}

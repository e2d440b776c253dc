"""A maze in which one can only drift with the wind: flat, and with two levels of agents.

After the example of hierarchical training in RLlib's documentation.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.multi_agent import ALL, MultiAgentEnv

MAZE = """\
#########
#S      #
####### #
      # #
      # #
####### #
#F      #
#########"""
MOST_STEPS = 200
LEVEL_STEPS = 25
"""A goal is pursued for so many steps."""
HIGH = "high_level_agent"
LOW = "low_level_"
"""The agent that chooses goals, and what the names of those begin with that pursue one each."""
_MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left
_REWARD = 100.0


class WindyMazeEnv(gymnasium.Env[Any, Any]):
    """Tells where one is and where the wind blows, which is somewhere else each step; to move is to go with it.

    The way from S to F leads right, down, and left. To arrive is worth 100; an episode has 200 steps at most.
    """

    def __init__(self, config: Any = None) -> None:
        """Make it; there are no settings."""
        self.observation_space = spaces.Tuple((spaces.Box(0, 100, (2,), np.float32), spaces.Discrete(4)))
        self.action_space = spaces.Discrete(2)
        self._rows = MAZE.splitlines()
        self._start, self._finish = (self._place_of(sign) for sign in "SF")
        self.place, self.wind, self._made = self._start, 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin at S."""
        super().reset(seed=seed)
        self.place, self._made = self._start, 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Drift with the wind (1), or stay (0)."""
        if int(action) == 1:
            self.place = self.after(self.place, self.wind)
        self._made += 1
        arrived = self.place == self._finish
        return self._seen(), _REWARD * arrived, arrived, not arrived and self._made >= MOST_STEPS, {}

    def after(self, place: tuple[int, int], direction: int) -> tuple[int, int]:
        """Return where a step in a direction leads: to where one is, if there is a wall."""
        row, column = (at + by for at, by in zip(place, _MOVES[direction], strict=True))
        return (row, column) if self._rows[row][column] != "#" else place

    def _seen(self) -> tuple[Any, int]:
        self.wind = int(self.np_random.integers(4))
        return np.array(self.place, np.float32), self.wind

    def _place_of(self, sign: str) -> tuple[int, int]:
        return next((row, line.index(sign)) for row, line in enumerate(self._rows) if sign in line)


class HierarchicalWindyMazeEnv(MultiAgentEnv):
    """The maze for two levels: one agent chooses a direction, and another pursues it for 25 steps.

    Each goal is pursued by an agent with a new name, whose part of the episode ends with the goal: `low_level_1`,
    `low_level_2` and so on. Such an agent gets 1 for a step in the direction, and -1 for one in another. The agent
    above gets 100 when the maze is left.
    """

    def __init__(self, config: Any = None) -> None:
        """Make it; there are no settings."""
        self.flat = WindyMazeEnv(config)
        self.high_space, self.goals = self.flat.observation_space, spaces.Discrete(4)
        self.low_space, self.moves = spaces.Tuple((self.high_space, self.goals)), self.flat.action_space
        self._goals_chosen, self._left, self._goal = 0, 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin at S: the upper agent chooses a goal."""
        self._seen, _ = self.flat.reset(seed=seed)
        self._goals_chosen = 0
        return {HIGH: self._seen}, {}

    def step(self, action_dict: Any) -> Any:
        """Take the goal that the upper agent chose, or let the lower one make a step."""
        ((agent, action),) = action_dict.items()
        return self._choose(int(action)) if agent == HIGH else self._pursue(agent, int(action))

    def get_observation_space(self, agent_id: Any) -> Any:
        """Return the observation space of an agent, by its level."""
        return self.high_space if agent_id == HIGH else self.low_space

    def get_action_space(self, agent_id: Any) -> Any:
        """Return the action space of an agent, by its level."""
        return self.goals if agent_id == HIGH else self.moves

    def _choose(self, goal: int) -> Any:
        self._goal, self._left = goal, LEVEL_STEPS
        self._goals_chosen += 1
        agent = f"{LOW}{self._goals_chosen}"
        return {agent: (self._seen, goal)}, {agent: 0.0}, {ALL: False}, {ALL: False}, {}

    def _pursue(self, agent: Any, action: int) -> Any:
        before, self._left = self.flat.place, self._left - 1
        wanted = self.flat.after(before, self._goal)
        self._seen, reward, arrived, is_late, _ = self.flat.step(action)
        moved = self.flat.place != before
        seen = {agent: (self._seen, self._goal)}
        rewards = {agent: (1.0 if self.flat.place == wanted else -1.0) if moved else 0.0}
        terminateds, truncateds = {ALL: arrived}, {ALL: is_late}
        if arrived or is_late or not self._left:
            terminateds[agent] = True
            seen[HIGH], rewards[HIGH] = self._seen, reward
        return seen, rewards, terminateds, truncateds, {}

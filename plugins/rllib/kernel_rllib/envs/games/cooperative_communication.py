"""A speaker who knows where to go and can't move, and a listener who moves and does not know: particles in a plane.

Lowe et al. 2017, "Multi-agent actor-critic for mixed cooperative-competitive environments" (arXiv 1706.02275), section
5.1, cooperative communication; the motion is that of Mordatch and Abbeel 2018, "Emergence of grounded compositional
language" (arXiv 1703.04908).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.multi_agent import ALL, Dicts, MultiAgentEnv

SPEAKER, LISTENER = "speaker", "listener"
ON_TARGET = "on_target"
"""In the info of the listener's last step: whether it touches the landmark that it was to go to."""
STEP_SECONDS = 0.1
DAMPING = 0.25
FORCE = 5.0
TOUCHING = 0.075 + 0.04
"""The radius of the listener and that of a landmark."""
_MOVES = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], np.float64)


class CooperativeCommunication(MultiAgentEnv):
    """Both agents get minus the square of the listener's distance to the goal, one of `landmarks` landmarks.

    The speaker sees which one is the goal, and says one of as many words. The listener sees its velocity, where the
    landmarks are from where it stands, and what was said in the step before; it pushes in one of four directions, or
    in none.

    env_config: `landmarks` (3), `steps` (25) of an episode, which is cut then.
    """

    def __init__(self, env_config: Mapping[str, Any] | None = None) -> None:
        config = env_config or {}
        self._count = int(config.get("landmarks", 3))
        self._steps = int(config.get("steps", 25))
        self.agents = self.possible_agents = [SPEAKER, LISTENER]
        width = 2 + 3 * self._count
        self.observation_spaces = {
            SPEAKER: spaces.Discrete(self._count),
            LISTENER: spaces.Box(-np.inf, np.inf, (width,), np.float32),
        }
        self.action_spaces = {SPEAKER: spaces.Discrete(self._count), LISTENER: spaces.Discrete(len(_MOVES))}
        self._random = np.random.default_rng()
        self._begin()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Put landmarks and listener anywhere in a square of side 2, and choose the goal."""
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self._begin()
        return self._seen(), {}

    def step(self, action_dict: Mapping[Any, Any]) -> Dicts:  # type: ignore[override]
        """Move the listener, and let it hear the word in the next step."""
        self._said[:] = 0
        self._said[int(action_dict[SPEAKER])] = 1
        self._velocity *= 1 - DAMPING
        self._velocity += _MOVES[int(action_dict[LISTENER])] * (FORCE * STEP_SECONDS)
        self._place += self._velocity * STEP_SECONDS
        self._time += 1
        squared = float(((self._place - self._landmarks[self._goal]) ** 2).sum())
        over = self._time >= self._steps
        infos = {LISTENER: {ON_TARGET: squared <= TOUCHING**2}} if over else {}
        return self._seen(), {SPEAKER: -squared, LISTENER: -squared}, {ALL: False}, {ALL: over}, infos

    def _begin(self) -> None:
        self._landmarks = self._random.uniform(-1, 1, (self._count, 2))
        self._place = self._random.uniform(-1, 1, 2)
        self._goal = int(self._random.integers(self._count))
        self._velocity, self._said, self._time = np.zeros(2), np.zeros(self._count), 0

    def _seen(self) -> dict[Any, Any]:
        from_here = (self._landmarks - self._place).ravel()
        return {
            SPEAKER: self._goal,
            LISTENER: np.concatenate([self._velocity, from_here, self._said]).astype(np.float32),
        }

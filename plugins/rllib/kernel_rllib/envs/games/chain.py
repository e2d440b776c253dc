"""Three states in a ring, whose values are known exactly: what tells a truncated episode from a terminated one.

Every step goes on to the next state, and pays 1, 2 or 3, as the state that it leaves. After `length` steps the episode
ends: *terminated*, then nothing comes after; or *truncated*, then the ring would have gone on for ever.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.game import Game, Generator, SingleEnv
from kernel_rllib.errors import EnvError
from kernel_rllib.spaces.nested import Array

_REWARDS = np.array([1.0, 2.0, 3.0], np.float32)
_STATES = len(_REWARDS)


class ChainGame(Game):
    """The ring. Settings: `end` ("terminated" or "truncated"), `length` (3 steps). Both actions do the same."""

    defaults = {"end": "terminated", "length": 3}  # noqa: RUF012
    arrays = ("steps",)
    steps: Array
    """int64 [lanes]: done in the episode."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        if self.settings["end"] not in ("terminated", "truncated"):
            raise EnvError(f'end is {self.settings["end"]!r}, but must be "terminated" or "truncated"')
        self.observation_space = spaces.Box(0.0, 1.0, (_STATES,), np.float32)
        self.action_space = spaces.Discrete(2)

    @property
    def max_episode_steps(self) -> int | None:
        """The length, where an episode is truncated with it."""
        return int(self.settings["length"]) if self.settings["end"] == "truncated" else None

    def allocate(self, lanes: int) -> None:
        """Make the arrays of the state."""
        self.steps = np.zeros(lanes, np.int64)

    def begin(self, lane: int, generator: Generator) -> None:
        """Begin with the first state."""
        self.steps[lane] = 0

    def advance(self, actions: Array, generators: list[Generator]) -> tuple[Array, Array]:
        """Go on to the next state."""
        rewards = _REWARDS[self.steps % _STATES]
        self.steps += 1
        ends = self.settings["end"] == "terminated"
        return rewards, (self.steps >= self.settings["length"]) & ends

    def observe(self, lanes: Any) -> Array:
        """Return the state, one-hot."""
        seen: Array = np.eye(_STATES, dtype=np.float32)[self.steps[lanes] % _STATES]
        return seen

    def values(self, gamma: float) -> Array:
        """Return the exact value of the state before each step of an episode, float64 [length].

        Terminated, the rewards that are left, discounted by `gamma`; truncated, those of a ring without end.
        """
        length = int(self.settings["length"])
        value = _ring_value(length, gamma) if self.settings["end"] == "truncated" else 0.0
        values = np.zeros(length)
        for step in reversed(range(length)):
            value = values[step] = float(_REWARDS[step % _STATES]) + gamma * value
        return values


def _ring_value(state: int, gamma: float) -> float:
    """Return what a ring that never ends is worth from a state on."""
    once = sum(gamma**step * float(_REWARDS[(state + step) % _STATES]) for step in range(_STATES))
    return once / (1 - gamma**_STATES)


class Chain(SingleEnv):
    """One ring."""

    game_class = ChainGame

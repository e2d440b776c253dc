"""Environments that count, that fail on purpose, or pay by chance: what tests step, here or in other processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Counter(gymnasium.Env[Any, Any]):
    """Shows how many steps there were and a number that is drawn anew each time; the reward is the action.

    length: of an episode, in steps. tells: whether infos say the count, and that an episode has begun.
    """

    observation_space: Any = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space: Any = spaces.Discrete(5)

    def __init__(self, length: int = 4, tells: bool = False) -> None:
        self.length = length
        self.tells = tells
        self.count = 0
        self.actions: list[Any] = []
        self.closed = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin to count."""
        super().reset(seed=seed)
        self.count = 0
        return self.seen(), {"begun": True} if self.tells else {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Count on."""
        self.count += 1
        self.actions.append(action)
        info = {"count": self.count} if self.tells else {}
        return self.seen(), float(action), self.count >= self.length, False, info

    def seen(self) -> Any:
        """Return the observation."""
        return np.array([self.count, self.np_random.random()], np.float32)

    def render(self) -> Any:
        """Return a picture of the count."""
        return np.full((2, 2, 3), self.count, np.uint8)

    def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True


class Broken(Counter):
    """Fails in the step `at` of its first life; later ones are known by the file `marker`, which the first one makes.

    how: "raise" an error, "exit" the process, return "nan" or a "nan reward".
    """

    def __init__(self, at: int, marker: str, how: str = "raise") -> None:
        super().__init__(length=100)
        self.at = at
        self.how = how
        self.first = not os.path.exists(marker)
        open(marker, "a").close()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Count on, or fail."""
        obs, reward, *rest = super().step(action)
        if self.first and self.count == self.at:
            if self.how == "raise":
                raise RuntimeError("the motor is stuck")
            if self.how == "exit":
                os._exit(3)
            if self.how == "nan":
                obs[1] = np.nan
            if self.how == "nan reward":
                reward = float("nan")
        return obs, reward, *rest


class Nested(Counter):
    """Shows a dict of a picture and a place, and takes a tuple of a choice and a push."""

    observation_space = spaces.Dict({"picture": spaces.Box(0, 255, (2, 3), np.uint8), "place": spaces.Discrete(9)})
    action_space = spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,))])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Count on; the reward is the sum of what was done."""
        index, push = action
        return super().step(float(index) + float(push.sum()))

    def seen(self) -> Any:
        """Return the observation."""
        return {"picture": np.full((2, 3), self.count), "place": self.count % 9}


class WithoutForm(Counter):
    """Shows tuples, which have no fixed size."""

    observation_space = spaces.Sequence(spaces.Discrete(9))

    def seen(self) -> Any:
        """Return the observation."""
        return (self.count,)


class Slow(Counter):
    """Takes `seconds` for each step."""

    def __init__(self, seconds: float) -> None:
        super().__init__(length=100)
        self.seconds = seconds

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Wait, then count on."""
        time.sleep(self.seconds)
        return super().step(action)


def counters(count: int, **settings: Any) -> list[Callable[[], Any]]:
    """Return makers of counters."""
    return [lambda: Counter(**settings)] * count


class Lottery(gymnasium.Env[Any, Any]):
    """Ends after one step: action 0 pays anything from 0 to 10, action 1 pays 2 or 8, each with equal chances."""

    observation_space: Any = spaces.Box(-1, 1, (1,), np.float32)
    action_space: Any = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Sell a ticket."""
        super().reset(seed=seed)
        return np.ones(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Pay."""
        drawn = float(self.np_random.random())
        return np.ones(1, np.float32), 10 * drawn if action == 0 else (2.0 if drawn < 0.5 else 8.0), True, False, {}

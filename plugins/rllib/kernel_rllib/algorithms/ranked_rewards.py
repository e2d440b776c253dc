"""Ranked rewards (Laterre et al. 2018, arXiv:1807.01672): one who plays alone is measured against its past."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernel_rllib.algorithms.masked_layout import ACTION_MASK
from kernel_rllib.envs.old_gym import Generations, five_values
from kernel_rllib.errors import EnvError


class RankedRewards:
    """The returns of the last episodes, and whether another one is among the best of them."""

    def __init__(self, percentile: float, most: int) -> None:
        """Keep `most` returns; the best are those from this percentile on."""
        self._percentile = percentile
        self._returns: deque[float] = deque(maxlen=most)

    @property
    def threshold(self) -> float:
        """The return from which on an episode is worth 1; -inf while there is none."""
        return float(np.percentile(list(self._returns), self._percentile)) if self._returns else -np.inf

    def rank(self, total: float) -> float:
        """Keep the return of an episode, and return what it is worth among those that are kept: 1 or -1."""
        self._returns.append(total)
        return 1.0 if total >= self.threshold else -1.0

    def keep(self, totals: Sequence[float]) -> None:
        """Keep the returns of episodes."""
        self._returns.extend(totals)

    def state(self) -> dict[str, Any]:
        """Return the returns."""
        return {"returns": np.array(self._returns, np.float64)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned."""
        self._returns.clear()
        self._returns.extend(np.asarray(state["returns"]).tolist())


def random_returns(env: Any, episodes: int, stream: np.random.Generator) -> list[float]:
    """Return the returns of episodes of random actions, of those that may be taken.

    Args:
        env: The environment, which observes a Dict with `action_mask`.
        episodes: The number of episodes.
        stream: The generator of random numbers that actions and seeds are drawn by.

    Raises:
        EnvError: If it raises, or returns what it must not.
    """
    reset, name = Generations().reset_of(env), type(env).__name__
    found = []
    for _ in range(episodes):
        observation, _ = reset(int(stream.integers(2**31)))
        total, ended = 0.0, False
        while not ended:
            legal = np.flatnonzero(np.asarray(observation[ACTION_MASK]) > 0.5)
            if not len(legal):
                raise EnvError(f"{name}: an episode goes on where {ACTION_MASK} allows no action: end it there")
            action = int(legal[stream.integers(len(legal))])
            observation, reward, terminated, truncated, _ = five_values(env.step(action), name)
            total += float(reward)
            ended = bool(terminated) or bool(truncated)
        found.append(total)
    return found

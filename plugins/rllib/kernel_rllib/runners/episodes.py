"""Track each episode while its steps go by: its return and its length."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array


@dataclass(frozen=True, order=True)
class EpisodeSummary:
    """One episode that ended. Those of all lanes have one order, whichever runners they were in.

    Attributes:
        ended_at: The number of steps of its lane by its end.
        lane: The number of that lane.
        total_reward: The sum of its rewards.
        length: The number of its steps.
        agents: Of several agents, what each earned: (agent as text, policy, sum of rewards).
    """

    ended_at: int
    lane: int
    total_reward: float
    length: int
    agents: tuple[tuple[str, str, float], ...] = ()

    @classmethod
    def of_list(cls, values: Sequence[Any]) -> EpisodeSummary:
        """Return an episode of its values in order, as files have them: with lists for tuples."""
        ended_at, lane, total_reward, length, *agents = values
        earned = ((agent, policy, reward) for found in agents for agent, policy, reward in found)
        return cls(ended_at, lane, total_reward, length, tuple(earned))


class EpisodeCounts:
    """Sums up rewards and steps of the episode that each lane is in."""

    def __init__(self, lanes: Array) -> None:
        """Count for the lanes with these numbers [L]."""
        self._lanes = lanes
        self._rewards = np.zeros(len(lanes), np.float64)
        self._lengths = np.zeros(len(lanes), np.int64)
        self._steps = np.zeros(len(lanes), np.int64)
        self._ended: list[EpisodeSummary] = []

    @property
    def totals(self) -> Array:
        """The sums of the rewards so far of the episodes that lanes are in [L], float64."""
        return self._rewards

    def step(self, rewards: Array) -> None:
        """Count one step of each lane, with the rewards [L] as the environment gave them."""
        self._rewards += rewards
        self._lengths += 1
        self._steps += 1

    def end(self, positions: Iterable[int]) -> None:
        """Close the episodes of the lanes at these positions, and begin the next ones."""
        for position in positions:
            total, length = float(self._rewards[position]), int(self._lengths[position])
            ended_at = int(self._steps[position])
            self._ended.append(EpisodeSummary(ended_at, int(self._lanes[position]), total, length))
            self.drop(position)

    def drop(self, position: int) -> None:
        """Begin anew in a lane whose episode is not to be counted: its environment failed."""
        self._rewards[position] = 0
        self._lengths[position] = 0

    def forget_after(self, steps: Array) -> None:
        """Let it be as if each lane had made so many steps [L], and no more."""
        last = dict(zip(self._lanes.tolist(), steps.tolist(), strict=True))
        self._ended = [episode for episode in self._ended if episode.ended_at <= last[episode.lane]]
        self._steps[:] = steps

    def take(self) -> list[EpisodeSummary]:
        """Return the episodes that ended since this was last asked."""
        ended, self._ended = self._ended, []
        return ended

    def state(self, position: int) -> dict[str, float]:
        """Return what it counts of the open episode of the lane at this position."""
        return {
            "reward": float(self._rewards[position]),
            "length": int(self._lengths[position]),
            "steps": int(self._steps[position]),
        }

    def set_state(self, position: int, state: Mapping[str, float]) -> None:
        """Go on in the lane at this position with what `state` returned."""
        self._rewards[position] = state["reward"]
        self._lengths[position] = state["length"]
        self._steps[position] = int(state["steps"])

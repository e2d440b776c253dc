"""The evaluator: episodes or steps in runners of its own, by the parameters of now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from kernel_rllib.arrays import Array
from kernel_rllib.connectors.moments import Statistics
from kernel_rllib.runners.env_runner import EnvRunner
from kernel_rllib.runners.episodes import EpisodeSummary
from kernel_rllib.runners.group import RunnerGroup

Unit: TypeAlias = Literal["episodes", "timesteps"]

CHUNK = 64
"""How many steps all lanes make before episodes are counted."""


class Evaluator:
    """Plays with the parameters that it is given. All lanes begin anew each time, so that no episode is cut."""

    def __init__(self, runners: RunnerGroup, lanes: int) -> None:
        """Play in these runners, which have this many lanes together."""
        self._runners, self._lanes = runners, lanes
        self._rounds = 0

    def play(
        self, weights: Array, version: int, duration: int, unit: Unit, statistics: Statistics | None = None
    ) -> list[EpisodeSummary]:
        """Return the episodes of one evaluation, in the order of lanes.

        Args:
            weights: The parameters to act with [size].
            version: Which these are.
            duration: How many episodes, exactly; or how many steps, or the least number above that lanes can share.
            unit: What `duration` counts.
            statistics: What the connectors of training have learned; those here learn nothing. None for nothing yet.
        """
        self._rounds += 1
        self._runners.set_weights(weights, version)
        self._runners.set_statistics(statistics or {})
        if unit == "timesteps":
            return self._steps(-(-duration // self._lanes))
        self._runners.hand_over_weights()
        quotas = [duration // self._lanes + (lane < duration % self._lanes) for lane in range(self._lanes)]
        found = self._runners.foreach(play_episodes, quotas, self._rounds)
        return [episode for episodes in found for episode in episodes]

    def close(self) -> None:
        """End the runners."""
        self._runners.close()

    def _steps(self, steps: int) -> list[EpisodeSummary]:
        self._runners.foreach(begin_anew, self._rounds)
        samples = self._runners.sample(lambda runner: steps)
        return sorted(episode for sample in samples for episode in sample.episodes)


def begin_anew(runner: EnvRunner, round_number: int) -> None:
    """Let all lanes of a runner begin new episodes, those of an evaluation."""
    runner.sampler.begin(round_number)
    runner.sampler.take_episodes()


def play_episodes(runner: EnvRunner, quotas: Sequence[int], round_number: int) -> list[EpisodeSummary]:
    """Return the first episodes of each lane of a runner, as many as `quotas` says by the lane's number.

    The first ones of each lane, not the first ones of all: short episodes end early, and would count too much.
    """
    begin_anew(runner, round_number)
    missing = {lane: quotas[lane] for lane in runner.sampler.lanes.tolist() if quotas[lane]}
    found: list[EpisodeSummary] = []
    while missing:
        runner.sampler.sample(CHUNK)
        for episode in runner.sampler.take_episodes():
            if episode.lane in missing:
                found.append(episode)
                missing[episode.lane] -= 1
                if not missing[episode.lane]:
                    del missing[episode.lane]
    return sorted(found, key=lambda episode: (episode.lane, episode.ended_at))

"""The evaluator: episodes or steps in runners of its own, by the parameters of now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from kernel_rllib.arrays import Array
from kernel_rllib.callbacks.observer import RunnerReport
from kernel_rllib.connectors.moments import Statistics
from kernel_rllib.runners.calls import PatientCalls
from kernel_rllib.runners.env_runner import EnvRunner
from kernel_rllib.runners.episodes import EpisodeSummary
from kernel_rllib.runners.group import RunnerGroup

Unit: TypeAlias = Literal["episodes", "timesteps"]

CHUNK = 64
"""The steps of all lanes together before episodes are counted."""


@dataclass
class Played:
    """The episodes that one runner, or all of them, played.

    Attributes:
        episodes: The episodes that ended, in the order of lanes.
        env_steps: The number of steps of the environments.
        reports: The reports of callbacks.
    """

    episodes: list[EpisodeSummary] = field(default_factory=list)
    env_steps: int = 0
    reports: list[RunnerReport | None] = field(default_factory=list)

    def add(self, others: Sequence[Played]) -> None:
        """Take in what others played."""
        for other in others:
            self.episodes += other.episodes
            self.env_steps += other.env_steps
            self.reports += other.reports


class Evaluator:
    """Plays with the parameters that it is given."""

    def __init__(
        self, runners: RunnerGroup, lanes: int, *, begins_anew: bool = True, timeout_s: float | None = None
    ) -> None:
        """Play in these runners.

        Args:
            runners: Runners for this evaluator only.
            lanes: The number of lanes that they have together.
            begins_anew: Whether all lanes begin new episodes each time, so that no episode has steps by older
                parameters.
            timeout_s: The number of seconds to wait for runners; None for any.
        """
        self.runners, self._lanes = runners, lanes
        self._begins_anew = begins_anew
        self._calls = PatientCalls(runners, timeout_s=timeout_s, what="evaluation")
        self._rounds = self._versions = 0

    def prepare(self, weights: Array, statistics: Statistics | None = None) -> None:
        """Let all runners have these parameters [size], and what the connectors of training have learned, now."""
        self._versions += 1
        self.runners.set_weights(weights, self._versions)
        self.runners.set_statistics(statistics or {})
        if statistics:
            self._calls(EnvRunner.set_statistics, statistics)
        held = self.runners.weights
        if held is not None:
            self._calls(EnvRunner.set_weights, *held)

    def play(self, weights: Array, duration: int, unit: Unit, statistics: Statistics | None = None) -> Played:
        """Return what one evaluation plays.

        Args:
            weights: The parameters to act with [size].
            duration: The exact number of episodes; or the number of steps, or the least one above that lanes can share.
            unit: The unit of `duration`.
            statistics: The statistics of the connectors of training; those here learn nothing. None for none yet.
        """
        self._begin(weights, statistics)
        found = Played()
        if unit == "timesteps":
            found.add(self._calls(play_steps, -(-duration // self._lanes)))
            found.episodes.sort()
            return found
        quotas = [duration // self._lanes + (lane < duration % self._lanes) for lane in range(self._lanes)]
        found.add(self._calls(play_episodes, quotas))
        return found

    def play_while(
        self,
        weights: Array,
        unit: Unit,
        goes_on: Callable[[], bool],
        steps: int,
        statistics: Statistics | None = None,
    ) -> Played:
        """Return what is played as long as something else goes on: at least one round.

        Args:
            weights: The parameters to act with [size].
            unit: Whether a round is an episode of each lane, or `steps` steps of each runner.
            goes_on: Says whether to play another round.
            steps: The number of steps that all lanes of a runner make together in a round.
            statistics: The statistics of the connectors of training.
        """
        self._begin(weights, statistics)
        found = Played()
        while True:
            if unit == "episodes":
                found.add(self._calls(play_episodes, [1] * self._lanes))
            else:
                found.add(self._calls(play_steps_together, steps))
            if not goes_on():
                return found

    def close(self) -> None:
        """End the runners."""
        self.runners.close()

    def _begin(self, weights: Array, statistics: Statistics | None) -> None:
        self._rounds += 1
        self.prepare(weights, statistics)
        if self._begins_anew:
            self._calls(begin_anew, self._rounds)


def begin_anew(runner: EnvRunner, round_number: int) -> None:
    """Let all lanes of a runner begin new episodes, those of an evaluation."""
    runner.sampler.begin(round_number)
    runner.sampler.take_episodes()


def play_steps(runner: EnvRunner, steps: int) -> Played:
    """Return what a runner plays in which each lane makes so many steps."""
    sampler = runner.sampler
    found, report = sampler.sample(steps), None
    if sampler.observer is not None:
        sampler.observer.sampled(found)
        report = sampler.observer.take()
    return Played(sampler.take_episodes(), steps * len(sampler.lanes), [report])


def play_steps_together(runner: EnvRunner, steps: int) -> Played:
    """Return what a runner plays in which all lanes together make so many steps, or the least number above."""
    return play_steps(runner, -(-steps // len(runner.sampler.lanes)))


def play_episodes(runner: EnvRunner, quotas: Sequence[int]) -> Played:
    """Return the first episodes of each lane of a runner, as many as `quotas` says by the lane's number.

    The first ones of each lane, not the first ones of all: short episodes end early, and would count too much.
    """
    missing = {lane: quotas[lane] for lane in runner.sampler.lanes.tolist() if quotas[lane]}
    found = Played()
    counted: set[tuple[int, int]] = set()
    while missing:
        chunk = play_steps(runner, CHUNK)
        found.env_steps += chunk.env_steps
        found.reports += chunk.reports
        for episode in chunk.episodes:
            if episode.lane in missing:
                found.episodes.append(episode)
                counted.add((episode.ended_at, episode.lane))
                missing[episode.lane] -= 1
                if not missing[episode.lane]:
                    del missing[episode.lane]
    for report in found.reports:
        if report is not None:
            report.episodes = [each for each in report.episodes if (each.ended_at, each.lane) in counted]
    found.episodes.sort(key=lambda episode: (episode.lane, episode.ended_at))
    return found

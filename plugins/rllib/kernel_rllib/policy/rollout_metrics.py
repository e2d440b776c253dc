"""Episodes of a worker that is sampled by hand: what `worker.get_metrics()` returns of each."""

from __future__ import annotations

from typing import Any, NamedTuple

from kernel_rllib.callbacks.observer import RunnerReport
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID
from kernel_rllib.runners.env_runner import EnvRunner, Sample
from kernel_rllib.runners.episodes import EpisodeSummary


class RolloutMetrics(NamedTuple):
    """One episode that ended.

    Attributes:
        episode_length: The number of its steps.
        episode_reward: The sum of its rewards.
        agent_rewards: The return of each agent, by (agent as text, policy); one agent alone is `"agent0"`.
        custom_metrics: The metrics that callbacks reported of it.
        perf_stats: The duration of the sample that it ended in: `sample_time_ms`.
        hist_data: Lists of numbers that callbacks reported of it.
        media: The other data that they reported of it.
    """

    episode_length: int
    episode_reward: float
    agent_rewards: dict[tuple[Any, str], float]
    custom_metrics: dict[str, Any]
    perf_stats: dict[str, float]
    hist_data: dict[str, list[Any]]
    media: dict[str, Any]


def keep_metrics(runner: EnvRunner, sample: Sample) -> None:
    """Keep the episodes of a sample that was asked for by hand."""
    runner.metrics.extend(_metrics_of(each, sample.report, sample.seconds) for each in sample.episodes)


def take_metrics(runner: EnvRunner) -> list[RolloutMetrics]:
    """Return what was kept of a runner, and forget it."""
    found = list(runner.metrics)
    runner.metrics.clear()
    return found


def _metrics_of(episode: EpisodeSummary, report: RunnerReport | None, seconds: float) -> RolloutMetrics:
    reported = [] if report is None else report.episodes
    said = next((each for each in reported if (each.ended_at, each.lane) == (episode.ended_at, episode.lane)), None)
    alone = (("agent0", DEFAULT_POLICY_ID, episode.total_reward),)
    return RolloutMetrics(
        episode.length,
        episode.total_reward,
        {(agent, policy): reward for agent, policy, reward in episode.agents or alone},
        {} if said is None else dict(said.custom_metrics),
        {"sample_time_ms": seconds * 1000},
        {} if said is None else dict(said.hist_data),
        {} if said is None else dict(said.media),
    )

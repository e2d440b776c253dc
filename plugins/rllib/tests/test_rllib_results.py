"""Results: windows of episodes, and one tree with the names of all generations."""

from __future__ import annotations

import math

import numpy as np
from kernel_rllib.runners.episodes import EpisodeCounts, EpisodeSummary
from kernel_rllib.training.results import EpisodeWindow, episode_results, learner_results, mean_metrics, merged


def episodes(*rewards: float) -> list[EpisodeSummary]:
    """Return episodes with these returns, each as long as its return is large."""
    return [EpisodeSummary(0, 0, reward, int(reward)) for reward in rewards]


def test_means_are_over_the_last_episodes() -> None:
    window = EpisodeWindow(2)
    window.add(episodes(1, 2))
    window.take()
    window.add(episodes(4))
    result = episode_results(window)
    assert result["episode_reward_mean"] == result["env_runners"]["episode_return_mean"] == 3.0
    assert (result["episodes_this_iter"], result["episodes_total"]) == (1, 3)
    assert result["hist_stats"] == {"episode_reward": [2, 4], "episode_lengths": [2, 4]}


def test_an_iteration_with_more_episodes_than_the_window_counts_all_of_them() -> None:
    window = EpisodeWindow(2)
    window.add(episodes(1, 2, 6))
    assert episode_results(window)["episode_reward_mean"] == 3.0
    assert episode_results(window)["episode_reward_mean"] == 4.0


def test_without_an_episode_there_is_no_mean() -> None:
    result = episode_results(EpisodeWindow(2))
    assert math.isnan(result["episode_reward_mean"])
    assert result["episodes_this_iter"] == 0


def test_a_window_goes_on_elsewhere() -> None:
    window, other = EpisodeWindow(3), EpisodeWindow(3)
    window.add(episodes(1, 2, 6, 7))
    window.take()
    other.set_state(window.state())
    assert episode_results(other) == episode_results(window)


def test_learners_report_under_the_names_of_both_generations() -> None:
    result = learner_results({"default_policy": {"total_loss": 1.0}})
    assert result["learners"]["default_policy"]["total_loss"] == 1.0
    assert result["info"]["learner"]["default_policy"]["learner_stats"]["total_loss"] == 1.0


def test_metrics_are_averaged_where_they_are_reported() -> None:
    found = mean_metrics([{"a": 1.0, "b": np.array([2.0, 4.0])}, {"a": 3.0}])
    assert found == {"a": 2.0, "b": 3.0}


def test_trees_are_put_together_branch_by_branch() -> None:
    assert merged({"a": {"x": 1}, "b": 1}, {"a": {"y": 2}, "b": 2}) == {"a": {"x": 1, "y": 2}, "b": 2}


def test_episodes_are_counted_lane_by_lane() -> None:
    counts = EpisodeCounts(np.array([4, 5]))
    counts.step(np.array([1.0, 10.0]))
    counts.step(np.array([1.0, 10.0]))
    counts.end([1])
    counts.step(np.array([1.0, 10.0]))
    saved = counts.state(0)
    counts.drop(0)
    counts.end([0, 1])
    assert counts.take() == [EpisodeSummary(2, 5, 20.0, 2), EpisodeSummary(3, 4, 0.0, 0), EpisodeSummary(3, 5, 10.0, 1)]
    assert counts.take() == []
    counts.set_state(0, saved)
    counts.end([0])
    assert counts.take() == [EpisodeSummary(3, 4, 3.0, 3)]

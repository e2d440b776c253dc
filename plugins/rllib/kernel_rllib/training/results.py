"""The result of an iteration, as one tree: what was sampled, what was learned, how long it took.

Programs of all generations find their keys in it: `env_runners/episode_return_mean` and `episode_reward_mean` are the
same number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import Any, TypeAlias

import numpy as np

from kernel_rllib.runners.episodes import EpisodeSummary

ResultTree: TypeAlias = dict[str, Any]


class EpisodeWindow:
    """The last episodes, over which returns and lengths are averaged."""

    def __init__(self, size: int) -> None:
        """Average over the last `size` episodes; over all of an iteration that brings more."""
        self._size = size
        self._last: deque[EpisodeSummary] = deque()
        self._new = 0
        self.total = 0
        """The number of episodes since training began."""

    def add(self, episodes: Iterable[EpisodeSummary]) -> None:
        """Take in episodes that ended."""
        for episode in episodes:
            self._last.append(episode)
            self._new += 1
            self.total += 1

    def take(self) -> tuple[list[EpisodeSummary], int]:
        """Return the episodes to average over now, and how many of them are new since this was last asked."""
        while len(self._last) > max(self._size, self._new):
            self._last.popleft()
        new, self._new = self._new, 0
        return list(self._last), new

    def state(self) -> dict[str, Any]:
        """Return all that it needs to go on elsewhere."""
        return {"total": self.total, "last": [astuple(episode) for episode in self._last]}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned."""
        self.total, self._new = int(state["total"]), 0
        self._last = deque(EpisodeSummary.of_list(episode) for episode in state["last"])


def episode_results(window: EpisodeWindow) -> ResultTree:
    """Return what is reported of episodes, under the names of all generations.

    Without any episode yet, means are NaN.
    """
    episodes, new = window.take()
    rewards, lengths = [e.total_reward for e in episodes], [e.length for e in episodes]
    mean, least, most = _spread(rewards)
    length, shortest, longest = _spread(lengths)
    found: ResultTree = {
        "env_runners": {
            "episode_return_mean": mean,
            "episode_return_min": least,
            "episode_return_max": most,
            "episode_len_mean": length,
            "episode_len_min": shortest,
            "episode_len_max": longest,
            "num_episodes": new,
            "num_episodes_lifetime": window.total,
        },
        "episode_reward_mean": mean,
        "episode_reward_min": least,
        "episode_reward_max": most,
        "episode_len_mean": length,
        "episodes_this_iter": new,
        "episodes_total": window.total,
        "hist_stats": {"episode_reward": rewards, "episode_lengths": lengths},
    }
    return merged(found, agent_results(episodes)) if any(episode.agents for episode in episodes) else found


def agent_results(episodes: Iterable[EpisodeSummary]) -> ResultTree:
    """Return what is reported of the agents of episodes, by agent and by policy, under the names of all generations."""
    by_agent: dict[str, list[float]] = {}
    by_policy: dict[str, list[float]] = {}
    for episode in episodes:
        for agent, policy, reward in episode.agents:
            by_agent.setdefault(agent, []).append(reward)
            by_policy.setdefault(policy, []).append(reward)
    spreads = {policy: _spread(rewards) for policy, rewards in by_policy.items()}
    means = {policy: spread[0] for policy, spread in spreads.items()}
    return {
        "env_runners": {
            "agent_episode_returns_mean": {agent: _spread(rewards)[0] for agent, rewards in by_agent.items()},
            "module_episode_returns_mean": means,
        },
        "policy_reward_mean": means,
        "policy_reward_min": {policy: spread[1] for policy, spread in spreads.items()},
        "policy_reward_max": {policy: spread[2] for policy, spread in spreads.items()},
        "hist_stats": {f"policy_{policy}_reward": rewards for policy, rewards in by_policy.items()},
    }


def learner_results(metrics: Mapping[str, Mapping[str, float]]) -> ResultTree:
    """Return what learners reported, by module, under the names of all generations."""
    return {
        "learners": {module: dict(found) for module, found in metrics.items()},
        "info": {"learner": {module: {"learner_stats": dict(found)} for module, found in metrics.items()}},
    }


def mean_metrics(updates: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean of each metric over updates; of an array, over its entries as well."""
    names = dict.fromkeys(name for update in updates for name in update)
    return {name: _mean([_number(update[name]) for update in updates if name in update]) for name in names}


def merged(*trees: Mapping[str, Any]) -> ResultTree:
    """Return one tree of several; where two have a branch of the same name, its leaves are put together."""
    result: ResultTree = {}
    for tree in trees:
        for name, value in tree.items():
            held = result.get(name)
            result[name] = merged(held, value) if isinstance(held, dict) and isinstance(value, Mapping) else value
    return result


def _number(metric: Any) -> float:
    return metric if isinstance(metric, float) else float(np.mean(metric))


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    if not values:
        return float("nan"), float("nan"), float("nan")
    return float(np.mean(values)), float(min(values)), float(max(values))

"""The callbacks of an algorithm, and what those of all runners report: custom metrics, histograms, values logged."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kernel_rllib.callbacks.callbacks import IN_RUNNERS, RLlibCallback
from kernel_rllib.callbacks.calling import CallbackSet, CallbackSettings, settings_of
from kernel_rllib.callbacks.metrics_logger import MetricsLogger
from kernel_rllib.callbacks.observer import EpisodeReport, RunnerReport
from kernel_rllib.callbacks.runner_views import RunnerPolicy
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import CallbackError
from kernel_rllib.learners.learner import Learner
from kernel_rllib.runners.group import RunnerGroup
from kernel_rllib.training.spaces import Spaces

PREFIX = "callbacks_"
"""The prefix of the settings that are functions of one event."""

RUNNER_EVENTS = (*IN_RUNNERS, "on_postprocess_trajectory")


def callback_settings_of(config: AlgorithmConfig) -> CallbackSettings:
    """Return what the settings say is called."""
    names = [name for name in type(config).fields if name.startswith(f"{PREFIX}on_")]
    return settings_of(config.callbacks_class, {name[len(PREFIX) :]: getattr(config, name) for name in names})


def runner_callbacks_of(config: AlgorithmConfig) -> CallbackSettings | None:
    """Return what runners call; None where that is nothing, so that they keep no episodes."""
    settings = callback_settings_of(config)
    wanted = set(RUNNER_EVENTS)
    if wanted & settings.functions.keys() or settings.infos.keys() - {"on_train_result"}:
        return settings
    return settings if any(_may_hear(each, wanted) for each in settings.classes) else None


def _may_hear(made: Any, events: Iterable[str]) -> bool:
    """Return whether a class has methods for some events; a function that makes an object may have any."""
    if not isinstance(made, type):
        return True
    if any(getattr(made, event, None) not in (None, getattr(RLlibCallback, event)) for event in events):
        return True
    return any(_may_hear(each, events) for each in getattr(made, "classes", ()))


class EpisodeReports:
    """The metrics that callbacks left in the last episodes."""

    def __init__(self, size: int, *, keep_each: bool = False) -> None:
        """Report over the last `size` episodes, and over all of an iteration that brings more.

        Args:
            size: The number of episodes.
            keep_each: True to report custom metrics episode by episode, not as means.
        """
        self._size, self._keep_each = size, keep_each
        self._last: deque[tuple[Mapping[str, float], Mapping[str, list[float]]]] = deque()
        self._media: dict[str, list[Any]] = {}
        self._new = 0

    def add(self, episodes: Iterable[EpisodeReport]) -> None:
        """Take in episodes that ended."""
        for episode in episodes:
            custom = {name: _number(name, value) for name, value in episode.custom_metrics.items()}
            self._last.append((custom, episode.hist_data))
            self._new += 1
            for name, value in episode.media.items():
                self._media.setdefault(name, []).append(value)

    def results(self) -> dict[str, Any]:
        """Return what is reported of them."""
        while len(self._last) > max(self._size, self._new):
            self._last.popleft()
        self._new = 0
        media, self._media = self._media, {}
        metrics: dict[str, list[Any]] = {}
        histograms: dict[str, list[Any]] = {}
        for custom, histogram in self._last:
            for name, value in custom.items():
                metrics.setdefault(name, []).append(value)
            for name, values in histogram.items():
                histograms.setdefault(name, []).extend(values)
        found = metrics if self._keep_each else _spreads(metrics)
        return {"custom_metrics": found, "hist_stats": histograms, "episode_media": media}

    def state(self) -> list[Any]:
        """Return all that it needs to go on elsewhere, as lists of names and numbers."""
        return [
            [[[*item] for item in custom.items()], [[*item] for item in hist.items()]] for custom, hist in self._last
        ]

    def set_state(self, state: list[Any]) -> None:
        """Go on with what `state` returned."""
        self._last = deque((dict(custom), dict(hist)) for custom, hist in state)


class Reports:
    """The callbacks of an algorithm, what they log, and what runners report of theirs."""

    def __init__(self, config: AlgorithmConfig) -> None:
        """Make the objects of the algorithm."""
        self.callbacks = CallbackSet(callback_settings_of(config))
        self.metrics = MetricsLogger()
        self.episodes = EpisodeReports(
            config.metrics_num_episodes_for_smoothing, keep_each=config.keep_per_episode_custom_metrics
        )

    def call(self, event: str, algorithm: Any, **given: Any) -> None:
        """Call what an event of an algorithm calls."""
        if self.callbacks.has(event):
            common = {"algorithm": algorithm, "trainer": algorithm, "metrics_logger": self.metrics}
            self.callbacks.call(event, {**common, **given})

    def take_in(self, reports: Iterable[RunnerReport | None]) -> None:
        """Take in what runners report of a round of samples."""
        _take_in(reports, self.episodes, self.metrics)

    def tell_of_new_runners(self, algorithm: Any, group: RunnerGroup, *, is_evaluation: bool) -> None:
        """Call the callbacks for runners of a group that took the places of lost ones."""
        indices = group.take_replaced()
        if indices:
            workers = algorithm.workers
            named = {"env_runner_group": workers, "env_runner_indices": indices}
            self.call("on_env_runners_recreated", algorithm, **named, is_evaluation=is_evaluation)
            named = {"worker_set": workers, "worker_ids": indices}
            self.call("on_workers_recreated", algorithm, **named, is_evaluation=is_evaluation)

    def before_learning(self, learner: Learner, spaces: Spaces, batch: Batch) -> dict[str, Any]:
        """Let callbacks see, and change, what is learned from; return what they want to be reported with it."""
        told: dict[str, Any] = {}
        if self.callbacks.has("on_learn_on_batch"):
            policy = RunnerPolicy(learner.module, np.asarray(learner.weights), spaces.observation, spaces.action)
            self.callbacks.call("on_learn_on_batch", {"policy": policy, "train_batch": batch, "result": told})
        return told

    def results(self) -> dict[str, Any]:
        """Return what is reported of an iteration."""
        return {**self.episodes.results(), **self.metrics.reduce()}

    def state(self) -> dict[str, Any]:
        """Return all that it needs to go on elsewhere."""
        return {"metrics": self.metrics.state(), "episodes": self.episodes.state()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned."""
        self.metrics = MetricsLogger()
        self.metrics.take_in(state["metrics"])
        self.episodes.set_state(state["episodes"])


def evaluation_results(reports: Iterable[RunnerReport | None], *, keep_each: bool) -> dict[str, Any]:
    """Return what callbacks of an evaluation's runners report; `keep_each`: custom metrics episode by episode."""
    episodes, metrics = EpisodeReports(0, keep_each=keep_each), MetricsLogger()
    _take_in(reports, episodes, metrics)
    return {**episodes.results(), **metrics.reduce()}


def _take_in(reports: Iterable[RunnerReport | None], episodes: EpisodeReports, metrics: MetricsLogger) -> None:
    there = [report for report in reports if report is not None]
    episodes.add(sorted(episode for report in there for episode in report.episodes))
    metrics.take_in_forwarded([each for report in there for each in report.logged], ("env_runners",))


def _number(name: str, value: Any) -> Any:
    """Return a custom metric, or the mean of an array of some. Raises CallbackError if it is no number."""
    try:
        return value if isinstance(value, (int, float)) else float(np.mean(np.asarray(value, np.float64)))
    except (TypeError, ValueError):
        raise CallbackError(
            f"a callback set episode.custom_metrics[{name!r}] to {value!r}, a {type(value).__name__}: give a number. "
            "What is no number goes into episode.media."
        ) from None


def _spreads(metrics: Mapping[str, list[Any]]) -> dict[str, float]:
    """Return the mean, the least and the greatest of each metric over the episodes that have a number for it."""
    found: dict[str, float] = {}
    for name, values in metrics.items():
        numbers = [value for value in values if not np.isnan(value)]
        for kind, reduce in (("mean", np.mean), ("min", np.min), ("max", np.max)):
            found[f"{name}_{kind}"] = float(reduce(numbers)) if numbers else float("nan")
    return found

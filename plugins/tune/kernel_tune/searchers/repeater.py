"""Running each configuration several times."""

from __future__ import annotations

from typing import Any

from kernel_runs.reports import Report, look_up
from kernel_tune.errors import SearchSpaceError
from kernel_tune.searchers.base import Searcher
from kernel_tune.searchers.metrics import finite_number
from kernel_tune.searchers.wrapped import WrappedSearcher

TRIAL_INDEX = "__trial_index__"
"""The key of a configuration with the number of the repeat, from 0, which can be used as a seed."""


class Repeater(WrappedSearcher):
    """Makes `repeat` trials of each configuration, and passes the mean of their last metrics on to a searcher.

    `num_samples` counts all trials, and should be a multiple of `repeat`: the result of a configuration is passed on
    only when all its repeats have ended. Failed repeats are left out of the mean; if all have failed, so has the
    configuration. With `set_index` the configuration has the number of the repeat, at TRIAL_INDEX. Do not combine it
    with a scheduler that stops trials early: the repeats would no longer be comparable. Raises SearchSpaceError for a
    `repeat` below 1.
    """

    def __init__(self, searcher: Searcher, repeat: int = 1, set_index: bool = True) -> None:
        super().__init__(searcher)
        if not isinstance(repeat, int) or repeat < 1:
            raise SearchSpaceError(f"repeat is {repeat!r}: every configuration runs at least once")
        self.repeat = repeat
        self._set_index = set_index
        self._group: _Group | None = None
        self._groups: dict[str, _Group] = {}

    @property
    def total_samples(self) -> int | None:
        inside = super().total_samples
        return None if inside is None else inside * self.repeat

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        if self._group is None or self._group.made == self.repeat:
            config = self.searcher.suggest(trial_id)
            if not isinstance(config, dict):
                return config
            self._group = _Group(trial_id, config)
        config = dict(self._group.config)
        if self._set_index:
            config[TRIAL_INDEX] = self._group.made
        self._group.made += 1
        self._groups[trial_id] = self._group
        return config

    def on_trial_result(self, trial_id: str, result: Report) -> None:
        group = self._groups.get(trial_id)
        if group is not None and group.first == trial_id:
            self.searcher.on_trial_result(trial_id, result)

    def on_trial_complete(self, trial_id: str, result: Report | None = None, error: bool = False) -> None:
        group = self._groups.pop(trial_id, None)
        if group is None:
            return
        group.ended += 1
        metrics = [self.metric] if isinstance(self.metric, str) else list(self.metric)
        scores = [finite_number(look_up(result or {}, metric)) for metric in metrics]
        if not error and result and None not in scores:
            group.scores.append([score for score in scores if score is not None])
            group.result = result
        if group.ended < self.repeat:
            return
        if group.scores:
            means = [sum(scores) / len(scores) for scores in zip(*group.scores, strict=True)]
            result = {**group.result, **dict(zip(metrics, means, strict=True))}
            self.searcher.on_trial_complete(group.first, result=result, error=False)
        else:
            self.searcher.on_trial_complete(group.first, result=None, error=True)


class _Group:
    """Holds the trials of one configuration."""

    def __init__(self, first: str, config: dict[str, Any]) -> None:
        self.first = first
        self.config = config
        self.made = 0
        self.ended = 0
        self.scores: list[list[float]] = []
        self.result: Report = {}

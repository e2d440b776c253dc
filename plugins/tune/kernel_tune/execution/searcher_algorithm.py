"""Searchers in the form of search algorithms, which are given experiments and make their trials.

`tune.run` and `Tuner` take a searcher as it is. This is for programs that drive a searcher themselves, as programs for
Ray may do.
"""

from __future__ import annotations

import copy
from typing import Any

from kernel_tune.execution.experiment import convert_to_experiments
from kernel_tune.execution.generation import SearchGenerator, Several, TrialMaker
from kernel_tune.execution.plan import RunPlan
from kernel_tune.execution.run_parts import make_spec
from kernel_tune.searchers import basic_variant
from kernel_tune.searchers.base import Searcher
from kernel_tune.trial import Trial


class SearcherAlgorithm(Several):
    """Makes the trials of experiments, one experiment after another, each with a copy of a searcher."""

    def __init__(self, searcher: Searcher, seed: int = 0) -> None:
        super().__init__([], concurrent=False)
        self.searcher = searcher
        self._maker = TrialMaker(seed)
        self._metric: str | None = None
        self._mode: str | None = None

    @property
    def metric(self) -> Any:  # type: ignore[override]
        """The metric that is optimised."""
        return self.searcher.metric

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Take metric and mode. The search spaces come with the experiments. Returns True."""
        self._metric, self._mode = metric, mode
        return True

    def add_configurations(self, experiments: Any) -> None:
        """Add experiments: an `Experiment`, a list of them, or a dict of name to description."""
        for experiment in convert_to_experiments(experiments):
            plan = experiment.plan()
            spec, _ = make_spec(plan, RunPlan([plan], metric=self._metric, mode=self._mode))
            self._parts.append(SearchGenerator(copy.deepcopy(self.searcher), spec, self._maker))

    def next_trials(self) -> list[Trial]:
        """Return all trials that are available now."""
        trials: list[Trial] = []
        while (trial := self.next_trial()) is not None:
            trials.append(trial)
        return trials


class BasicVariantGenerator(basic_variant.BasicVariantGenerator):
    """The searcher of this name, with methods to drive it directly: `add_configurations`, then `next_trials`."""

    def add_configurations(self, experiments: Any) -> None:
        """Add experiments: an `Experiment`, a list of them, or a dict of name to description."""
        self._by_hand.add_configurations(experiments)

    def next_trial(self) -> Trial | None:
        """Return the next trial, or None if there is none at present."""
        return self._by_hand.next_trial()

    def next_trials(self) -> list[Trial]:
        """Return all trials that are available now."""
        return self._by_hand.next_trials()

    def is_finished(self) -> bool:
        """Return whether there will be no further trial."""
        return self._by_hand.is_finished()

    def set_finished(self) -> None:
        """Make no further trial."""
        self._by_hand.set_finished()

    @property
    def _by_hand(self) -> SearcherAlgorithm:
        if "_algorithm" not in self.__dict__:
            self._algorithm = SearcherAlgorithm(copy.copy(self))
        return self._algorithm

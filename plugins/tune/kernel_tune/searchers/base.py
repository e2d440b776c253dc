"""The base of searchers, which propose configurations and are called with their results."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernel_runs.arguments import refuse_unknown
from kernel_runs.reports import DEFAULT_METRIC, Report

FINISHED = "FINISHED"


class Searcher:
    """Proposes configurations one at a time.

    The trial loop calls it in one thread, in this order for each trial: `suggest`, `on_trial_result` for every result
    of a running trial, `on_trial_complete` once. Trials overlap: several may be between `suggest` and
    `on_trial_complete`. A searcher reads no clock, and its random values come from a generator made from `seed`, so
    that the same calls have the same results: an experiment resumes by repeating the calls.

    `metric` is the key of the result that is optimised, `mode` is "max" or "min"; by default they are those of the
    experiment, which `set_search_properties` passes. A searcher that optimises several metrics takes lists of both.
    Raises ValueError for other modes, and `ArgumentError` for an argument that there is not.
    """

    FINISHED = FINISHED
    """Is returned by `suggest` when there will be no other configuration."""

    learns = True
    """Whether proposals depend on results."""
    _metric: Any = None
    _mode: Any = None

    def __init__(
        self, metric: str | Sequence[str] | None = None, mode: str | Sequence[str] | None = None, **unknown: Any
    ) -> None:
        _check_modes(metric, mode)
        refuse_unknown(self, unknown, type(self).__init__)
        self._metric = metric if isinstance(metric, (str, type(None))) else list(metric)
        self._mode = mode if isinstance(mode, (str, type(None))) else list(mode)

    @property
    def metric(self) -> Any:
        """The key of the result that is optimised, or a list of them."""
        return self._metric or DEFAULT_METRIC

    @property
    def mode(self) -> Any:
        """ "max" or "min", or a list with one for each metric."""
        if isinstance(self._metric, list) and not isinstance(self._mode, list):
            return [self._mode or "max"] * len(self._metric)
        return self._mode or "max"

    @property
    def total_samples(self) -> int | None:
        """The number of configurations that there will be, and so of trials; None if the searcher has no such number.

        With None it is the experiment's `num_samples`.
        """
        return None

    def set_search_properties(
        self, metric: str | None, mode: str | None, space: dict[str, Any], **experiment: Any
    ) -> bool:
        """Take metric and mode of the experiment if they are not set yet, and the search space.

        It is called once, before the first `suggest`. Return whether the space was taken: False if the searcher has one
        of its own, or can't use this one. It is an error then if the experiment's space has anything to choose.
        """
        self._metric = self._metric or metric
        self._mode = self._mode or mode
        return False

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return a configuration for a new trial, None if there is none at present, or `FINISHED` at the end."""
        raise NotImplementedError

    def on_trial_result(self, trial_id: str, result: Report) -> None:
        """A running trial has reported. The metric may be missing or NaN."""

    def on_trial_complete(self, trial_id: str, result: Report | None = None, error: bool = False) -> None:
        """A trial has ended, with its last result; None if it had none, or failed (`error`).

        `result` and `error` are passed by name. The metric may be missing or NaN.
        """

    def on_pause(self, trial_id: str) -> None:
        """A scheduler has paused a trial. It does not count as running until `on_unpause`."""

    def on_unpause(self, trial_id: str) -> None:
        """A paused trial runs again."""

    def add_evaluated_point(
        self, parameters: dict[str, Any], value: float, error: bool = False, pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:  # fmt: skip
        """Learn from a configuration that was evaluated elsewhere."""
        raise NotImplementedError(f"{type(self).__name__} can't take points that were evaluated elsewhere")

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Take the largest number of trials that run at once. Return whether the searcher observes it itself."""
        return False

    def get_state(self) -> dict[str, Any]:
        """Return the state that further proposals depend on. It can be pickled."""
        return {key: value for key, value in self.__dict__.items()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state that `get_state` has returned."""
        self.__dict__.update(state)

    def save(self, checkpoint_path: str) -> None:
        """Write the state into a file."""
        Path(checkpoint_path).write_bytes(pickle.dumps(self.get_state()))

    def restore(self, checkpoint_path: str) -> None:
        """Restore the state from a file that `save` has written: a warm start."""
        self.set_state(pickle.loads(Path(checkpoint_path).read_bytes()))


def _check_modes(metric: Any, mode: Any) -> None:
    modes = [mode] if isinstance(mode, (str, type(None))) else list(mode)
    if any(each not in ("min", "max") for each in modes if each is not None):
        raise ValueError(f"mode is {mode!r}: it is 'min' or 'max'")
    if not isinstance(mode, (str, type(None))):
        count = 1 if isinstance(metric, (str, type(None))) else len(metric)
        if len(modes) != count or None in modes:
            raise ValueError(f"mode is {mode!r} and metric {metric!r}: give 'min' or 'max' for each metric")

"""What a searcher is: it proposes configurations, and hears how they did."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernel_runs.reports import DEFAULT_METRIC, Report

FINISHED = "FINISHED"


class Searcher:
    """Proposes configurations one at a time.

    The trial loop calls it from one thread, in this order for each trial: `suggest`, `on_trial_result` for every
    result of a running trial, `on_trial_complete` once. Trials overlap: several may be between `suggest` and
    `on_trial_complete`. Nothing here reads a clock, and what is random comes from a generator made from `seed`, so that
    the same calls give the same answers: an experiment resumes by giving a searcher the same calls again.

    `metric` is the key of the result that is optimised, `mode` is "max" or "min"; where they are not given here,
    `set_search_properties` gives those of the experiment. A searcher that optimises several at once takes
    lists of both.
    """

    FINISHED = FINISHED
    """Returned by `suggest` when there will never be another configuration."""

    learns = True
    """Whether it goes by what trials report, where it hears of that at all."""
    _metric: Any = None
    _mode: Any = None

    def __init__(
        self, metric: str | Sequence[str] | None = None, mode: str | Sequence[str] | None = None, **deprecated: Any
    ) -> None:
        _check_modes(metric, mode)
        unknown = set(deprecated) - {"max_concurrent", "use_early_stopped_trials"}
        if unknown:
            raise TypeError(f"{type(self).__name__}() has no argument {sorted(unknown)[0]!r}")
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
        """How many configurations there will be, where the searcher knows: that many trials are then made.

        None leaves it to the experiment's `num_samples`.
        """
        return None

    def set_search_properties(
        self, metric: str | None, mode: str | None, space: dict[str, Any], **experiment: Any
    ) -> bool:
        """Take what the experiment says: metric and mode where there are none yet, and the search space.

        Called once, before the first `suggest`. Return whether the space was taken: False where the searcher has one of
        its own, or can't use this one; it is an error then if the experiment has a space with anything to choose.
        """
        self._metric = self._metric or metric
        self._mode = self._mode or mode
        return False

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return a configuration for a new trial, None if there is none just now, `FINISHED` if there never will be."""
        raise NotImplementedError

    def on_trial_result(self, trial_id: str, result: Report) -> None:
        """A running trial has reported. The metric may be missing or NaN."""

    def on_trial_complete(self, trial_id: str, result: Report | None = None, error: bool = False) -> None:
        """A trial has ended, with its last result if it had one, or has failed, which `error` says: without a result.

        `result` and `error` are given by name. The metric may be missing or NaN.
        """

    def on_pause(self, trial_id: str) -> None:
        """A scheduler has paused a trial: it waits, and does not count as running until `on_unpause`."""

    def on_unpause(self, trial_id: str) -> None:
        """A paused trial runs again."""

    def add_evaluated_point(
        self, parameters: dict[str, Any], value: float, error: bool = False, pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:  # fmt: skip
        """Learn from a configuration that was evaluated elsewhere."""
        raise NotImplementedError(f"{type(self).__name__} can't take points that were evaluated elsewhere")

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Hear how many trials run at once at most; return whether the searcher sees to that by itself."""
        return False

    def get_state(self) -> dict[str, Any]:
        """Return all that makes the next answers, as something that can be pickled."""
        return {key: value for key, value in self.__dict__.items()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `get_state` has returned."""
        self.__dict__.update(state)

    def save(self, checkpoint_path: str) -> None:
        """Write the state into a file."""
        Path(checkpoint_path).write_bytes(pickle.dumps(self.get_state()))

    def restore(self, checkpoint_path: str) -> None:
        """Go on from a file that `save` has written: a warm start."""
        self.set_state(pickle.loads(Path(checkpoint_path).read_bytes()))


def _check_modes(metric: Any, mode: Any) -> None:
    modes = [mode] if isinstance(mode, (str, type(None))) else list(mode)
    if any(each not in ("min", "max") for each in modes if each is not None):
        raise ValueError(f"mode is {mode!r}: it is 'min' or 'max'")
    if not isinstance(mode, (str, type(None))):
        count = 1 if isinstance(metric, (str, type(None))) else len(metric)
        if len(modes) != count or None in modes:
            raise ValueError(f"mode is {mode!r} and metric {metric!r}: give 'min' or 'max' for each metric")

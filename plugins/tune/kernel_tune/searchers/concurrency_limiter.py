"""A limit on the number of trials of a searcher that run at once."""

from __future__ import annotations

from typing import Any

from kernel_runs.reports import Report
from kernel_tune.errors import SearchSpaceError
from kernel_tune.searchers.base import FINISHED, Searcher
from kernel_tune.searchers.wrapped import WrappedSearcher


class ConcurrencyLimiter(WrappedSearcher):
    """Suggests nothing while `max_concurrent` trials run. Trials that a scheduler has paused do not count.

    With `batch` the searcher gets the results when all running trials have ended, in the order in which they ended, and
    then proposes the next ones together. A searcher that observes a limit itself is given this one instead. Raises
    SearchSpaceError for a limit below 1.
    """

    def __init__(self, searcher: Searcher, max_concurrent: int, batch: bool = False) -> None:
        super().__init__(searcher)
        if not isinstance(max_concurrent, int) or max_concurrent < 1:
            raise SearchSpaceError(f"max_concurrent is {max_concurrent!r}: at least one trial must be able to run")
        self.max_concurrent = max_concurrent
        self.batch = batch
        self._limits = not searcher.set_max_concurrency(max_concurrent)
        self._live: dict[str, None] = {}
        self._paused: dict[str, None] = {}
        self._ended: dict[str, tuple[Report | None, bool]] = {}

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        running = len(self._live) - len(self._paused) + len(self._ended)
        if self._limits and running >= self.max_concurrent:
            return None
        config = self.searcher.suggest(trial_id)
        if config is not None and config != FINISHED:
            self._live[trial_id] = None
        return config

    def on_trial_complete(self, trial_id: str, result: Report | None = None, error: bool = False) -> None:
        if trial_id not in self._live:
            return
        del self._live[trial_id]
        self._paused.pop(trial_id, None)
        if not (self.batch and self._limits):
            self.searcher.on_trial_complete(trial_id, result=result, error=error)
            return
        self._ended[trial_id] = (result, error)
        if not self._live:
            self._tell()

    def on_pause(self, trial_id: str) -> None:
        if trial_id in self._live:
            self._paused[trial_id] = None
        super().on_pause(trial_id)

    def on_unpause(self, trial_id: str) -> None:
        self._paused.pop(trial_id, None)
        super().on_unpause(trial_id)

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        self.max_concurrent = max_concurrent
        self._limits = not self.searcher.set_max_concurrency(max_concurrent)
        return True

    def _tell(self) -> None:
        ended, self._ended = self._ended, {}
        for trial_id, (result, error) in ended.items():
            self.searcher.on_trial_complete(trial_id, result=result, error=error)

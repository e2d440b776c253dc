"""The base of searchers that wrap another one."""

from __future__ import annotations

from typing import Any

from kernel_runs.reports import Report
from kernel_tune.searchers.base import Searcher


class WrappedSearcher(Searcher):
    """Passes calls on to the wrapped searcher. Its state includes that of the wrapped one."""

    def __init__(self, searcher: Searcher) -> None:
        if not isinstance(searcher, Searcher):
            raise TypeError(f"{type(self).__name__} is put around a Searcher, not around {searcher!r}")
        super().__init__()
        self.searcher = searcher

    @property
    def metric(self) -> Any:
        return self.searcher.metric

    @property
    def mode(self) -> Any:
        return self.searcher.mode

    @property
    def total_samples(self) -> int | None:
        """The number of configurations that there will be, or None if the wrapped searcher does not know it."""
        return self.searcher.total_samples

    def set_search_properties(
        self, metric: str | None, mode: str | None, space: dict[str, Any], **experiment: Any
    ) -> bool:
        return self.searcher.set_search_properties(metric, mode, space, **experiment)

    def on_trial_result(self, trial_id: str, result: Report) -> None:
        self.searcher.on_trial_result(trial_id, result)

    def add_evaluated_point(
        self, parameters: dict[str, Any], value: float, error: bool = False, pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:  # fmt: skip
        self.searcher.add_evaluated_point(parameters, value, error, pruned, intermediate_values)

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        return self.searcher.set_max_concurrency(max_concurrent)

    def on_pause(self, trial_id: str) -> None:
        self.searcher.on_pause(trial_id)

    def on_unpause(self, trial_id: str) -> None:
        self.searcher.on_unpause(trial_id)

    def get_state(self) -> dict[str, Any]:
        own = {key: value for key, value in self.__dict__.items() if key != "searcher"}
        return {**own, "searcher": self.searcher.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        self.searcher.set_state(state["searcher"])
        self.__dict__.update({key: value for key, value in state.items() if key != "searcher"})

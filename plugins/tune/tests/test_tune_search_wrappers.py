"""Repeater and ConcurrencyLimiter."""

from __future__ import annotations

import math
from typing import Any

import pytest
from kernel_tune import search_space as tune
from kernel_tune.errors import SearchSpaceError
from kernel_tune.searchers import FINISHED, TRIAL_INDEX, BOHBSearch, ConcurrencyLimiter, GridSearch, Repeater, Searcher

SPACE = {"x": tune.uniform(0, 1)}


class Recorder(Searcher):
    """Counts up to `last`, and notes what it hears."""

    def __init__(self, last: int = 100, limits_itself: bool = False) -> None:
        super().__init__("loss", "min")
        self.asked: list[str] = []
        self.heard: list[tuple[Any, ...]] = []
        self.last = last
        self.limits_itself = limits_itself
        self.told_limit = 0

    def suggest(self, trial_id: str) -> dict[str, Any] | str:
        if len(self.asked) == self.last:
            return FINISHED
        self.asked.append(trial_id)
        return {"n": len(self.asked)}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        self.heard.append(("result", trial_id, result["loss"]))

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self.heard.append((trial_id, (result or {}).get("loss"), error))

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        self.told_limit = max_concurrent
        return self.limits_itself


def test_the_repeater_tells_means_of_complete_groups() -> None:
    inner = Recorder()
    repeater = Repeater(inner, repeat=3)
    configs = [repeater.suggest(str(n)) for n in range(7)]
    assert [(c["n"], c[TRIAL_INDEX]) for c in configs if isinstance(c, dict)] == [
        (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2), (3, 0)
    ]  # fmt: skip
    assert TRIAL_INDEX == "__trial_index__"
    for trial_id, loss in (("1", 2.0), ("6", 9.0), ("0", 1.0)):
        repeater.on_trial_complete(trial_id, {"loss": loss})
    assert inner.heard == []
    repeater.on_trial_complete("2", {"loss": 6.0, "other": 1})
    assert inner.heard == [("0", 3.0, False)]


def test_repeats_that_failed_are_left_out_of_the_mean() -> None:
    inner = Recorder()
    repeater = Repeater(inner, repeat=3, set_index=False)
    assert [repeater.suggest(str(n)) for n in range(6)] == [{"n": 1}] * 3 + [{"n": 2}] * 3
    for trial_id, result in (("0", {"loss": math.nan}), ("1", None), ("2", {"loss": 5.0})):
        repeater.on_trial_complete(trial_id, result, error=result is None)
    for trial_id in "345":
        repeater.on_trial_complete(trial_id, None, error=True)
    assert inner.heard == [("0", 5.0, False), ("3", None, True)]


def test_the_repeater_passes_on_intermediate_results_of_the_trial_that_the_searcher_knows() -> None:
    inner = Recorder()
    repeater = Repeater(inner, repeat=2)
    repeater.suggest("a"), repeater.suggest("b")
    repeater.on_trial_result("a", {"loss": 1})
    repeater.on_trial_result("b", {"loss": 2})
    assert inner.heard == [("result", "a", 1)]


def test_the_limiter_limits() -> None:
    limiter = ConcurrencyLimiter(Recorder(last=4), 2)
    assert [limiter.suggest(str(n)) for n in range(3)] == [{"n": 1}, {"n": 2}, None]
    limiter.on_trial_complete("1", {"loss": 0.0})
    assert limiter.suggest("3") == {"n": 3}
    limiter.on_trial_complete("0", None, error=True)
    limiter.on_trial_complete("3", {})
    assert [limiter.suggest("4"), limiter.suggest("5")] == [{"n": 4}, FINISHED]


def test_batches_are_told_together() -> None:
    inner = Recorder(last=3)
    limiter = ConcurrencyLimiter(inner, 2, batch=True)
    assert [limiter.suggest("0"), limiter.suggest("1")] == [{"n": 1}, {"n": 2}]
    limiter.on_trial_complete("1", {"loss": 1.0})
    assert inner.heard == [] and limiter.suggest("2") is None
    limiter.on_trial_complete("0", {"loss": 0.0})
    assert inner.heard == [("1", 1.0, False), ("0", 0.0, False)]
    assert limiter.suggest("2") == {"n": 3}
    limiter.on_trial_complete("2", {"loss": 2.0})
    assert limiter.suggest("3") == FINISHED and inner.heard[-1] == ("2", 2.0, False), "a batch may be smaller at last"


def test_a_searcher_that_limits_itself_is_left_to() -> None:
    inner = Recorder(limits_itself=True)
    limiter = ConcurrencyLimiter(inner, 2, batch=True)
    assert inner.told_limit == 2 and [limiter.suggest(str(n)) for n in range(3)][-1] == {"n": 3}
    limiter.on_trial_complete("0", {"loss": 0.0})
    assert inner.heard == [("0", 0.0, False)]


def test_wrappers_know_totals_and_hand_on_pauses() -> None:
    grid = GridSearch({"n": tune.randint(3)})
    assert (
        ConcurrencyLimiter(grid, 2).total_samples,
        Repeater(grid, 4).total_samples,
        Repeater(Recorder(), 2).total_samples,
    ) == (3, 12, None)
    bohb = ConcurrencyLimiter(BOHBSearch(SPACE, metric="loss", mode="min"), 1)
    assert isinstance(bohb.suggest("0"), dict) and bohb.suggest("1") is None
    bohb.on_pause("0")
    assert isinstance(bohb.suggest("1"), dict)
    bohb.on_unpause("0")
    bohb.on_trial_complete("1", {"loss": 1.0})
    assert bohb.suggest("2") is None
    ConcurrencyLimiter(Recorder(), 1).on_pause("0")


def test_wrong_arguments() -> None:
    with pytest.raises(SearchSpaceError, match="repeat is 0"):
        Repeater(Recorder(), 0)
    with pytest.raises(SearchSpaceError, match=r"max_concurrent is 0"):
        ConcurrencyLimiter(Recorder(), 0)
    with pytest.raises(TypeError, match=r"Repeater is put around a Searcher, not around 3"):
        Repeater(3)  # type: ignore[arg-type]

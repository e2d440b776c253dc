"""Messages about searchers and schedulers with which an experiment can't go on, and about unknown events."""

from __future__ import annotations

from typing import Any

import pytest
from kernel_tune.errors import TuneError
from kernel_tune.execution.events import tell
from kernel_tune.schedulers import FIFOScheduler
from kernel_tune.searchers import BasicVariantGenerator
from kernel_tune.searchers.base import Searcher
from kernel_tune.testing.world import TrialWorld, make_world


class Suggests(Searcher):
    """Suggests the same for every trial."""

    def __init__(self, suggestion: Any) -> None:
        super().__init__()
        self.suggestion = suggestion

    def suggest(self, trial_id: str) -> Any:
        return self.suggestion


class NeverStarts(FIFOScheduler):
    def choose_trial_to_run(self, runner: Any) -> None:
        return None


def world(searcher: Any, scheduler: Any) -> TrialWorld:
    return make_world(searcher, scheduler, {"x": 1}, lambda config, state, iteration: 0.0, samples=2)


def test_a_scheduler_that_starts_no_trial_is_named() -> None:
    loop = world(BasicVariantGenerator(), NeverStarts()).loop
    assert loop.is_stuck
    assert loop.why_stuck() == (
        "the scheduler NeverStarts starts no trial, although machines have room for each that is pending or paused "
        "(1); its choose_trial_to_run() must return one of them"
    )


def test_a_searcher_that_suggests_nothing_while_no_trial_runs_is_told_what_it_must_do() -> None:
    loop = world(Suggests(None), FIFOScheduler()).loop
    assert loop.is_stuck
    assert loop.why_stuck() == (
        "the searcher suggests no configuration, although no trial runs for whose result it could wait; it must "
        "suggest one, or say that it is finished (Searcher.FINISHED)"
    )


def test_a_searcher_that_suggests_no_configuration_is_named() -> None:
    with pytest.raises(
        TuneError,
        match=r"^Suggests.suggest\(\) returned an object of int, but must return a configuration \(a dict\), N",
    ):
        world(Suggests(5), FIFOScheduler())


def test_an_event_of_a_later_version_says_where_to_resume() -> None:
    with pytest.raises(
        TuneError, match=r"log has the unknown event 'paint', .* later version of kernel: resume it there$"
    ):
        tell(world(BasicVariantGenerator(), FIFOScheduler()).loop, "/nowhere", "paint")

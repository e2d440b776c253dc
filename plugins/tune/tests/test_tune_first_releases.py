"""What programs for the first releases say: places of arguments, and several experiments."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernel_tune.arguments import ArgumentError

from kernel import tune
from kernel.tune.loggers import Logger
from kernel.tune.schedulers import AsyncHyperBandScheduler, TrialScheduler
from kernel.tune.searchers import ConcurrencyLimiter, Repeater, Searcher, TPESearch

pytestmark = pytest.mark.usefixtures("session", "results")


def report(config: dict[str, Any]) -> None:
    for step in range(3):
        tune.report(score=config.get("x", 1) * step, loss=config.get("x", 1))


class Counter(tune.Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        super().setup(config)
        self.count = 0

    def step(self) -> dict[str, Any]:
        self.count += 1
        return {"count": self.count}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"count": self.count}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.count = checkpoint["count"]


def test_arguments_have_the_places_that_they_had() -> None:
    analysis = tune.run(Counter, "by_place", {"training_iteration": 2}, {"x": 3}, verbose=0)
    (trial,) = analysis.trials
    assert (trial.results, trial.config, Path(trial.local_dir).name) == (2, {"x": 3}, "by_place")
    loggers: list[Any] = []
    experiment = tune.Experiment("by_place", Counter, None, None, None, 1, None, None, None, loggers)
    assert experiment.spec["loggers"] is loggers


def test_arguments_that_there_are_not() -> None:
    with pytest.raises(ArgumentError, match=r"tune.run\(\) has no argument 'num_sample'. Did you mean 'num_samples'\?"):
        tune.run(report, num_sample=3)
    with pytest.raises(ArgumentError, match=r"experiment 'a': there is no argument 'stopp'. Did you mean 'stop'\?"):
        tune.run_experiments({"a": {"run": report, "stopp": 1}})


EXPERIMENTS: list[tuple[str, Callable[[], Any]]] = [
    ("a list", lambda: [tune.Experiment("one", report), tune.Experiment("two", Counter, stop={"count": 2})]),
    ("a dict", lambda: {"one": {"run": report}, "two": tune.Experiment("two", Counter, stop={"count": 2})}),
    ("dicts in a list", lambda: [{"one": {"run": report}}, {"two": {"run": Counter, "stop": {"count": 2}}}]),
]


@pytest.mark.parametrize("make", [make for _, make in EXPERIMENTS], ids=[name for name, _ in EXPERIMENTS])
def test_several_experiments_at_once(make: Callable[[], Any]) -> None:
    analysis = tune.run(make(), verbose=0)
    found = {Path(trial.local_dir).name: (trial.trainable_name, trial.results) for trial in analysis.trials}
    assert found == {"one": ("report", 3), "two": ("Counter", 2)}
    assert [len(frame) for frame in analysis.trial_dataframes.values()] == [3, 2]
    trials = tune.run_experiments(make(), verbose=0)
    assert [str(trial.status) for trial in trials] == ["TERMINATED"] * 2


def test_what_are_no_experiments_is_named() -> None:
    with pytest.raises(TypeError, match=r"experiments are an Experiment, a dict of name to description or a list of"):
        tune.run([report], verbose=0)
    with pytest.raises(TypeError, match=r"experiments are an Experiment.*not \[\]"):
        tune.run([], verbose=0)
    with pytest.raises(tune.TuneError, match="a searcher works for one experiment at a time"):
        tune.run([tune.Experiment("one", report), tune.Experiment("two", report)], search_alg="random", verbose=0)


@pytest.mark.parametrize("run", [tune.run, tune.run_experiments])
def test_loggers_of_an_experiment_hear_of_its_trials_only(run: Callable[..., Any], results: Path) -> None:
    heard: list[str] = []

    class Hearing(Logger):
        def on_result(self, result: dict[str, Any]) -> None:
            heard.append(f"{self.trial and self.trial.trainable_name} {result['training_iteration']}")

    own = tune.Experiment("own", report, loggers=[Hearing])
    usual = tune.Experiment("usual", Counter, stop={"count": 2})
    run([own, usual], verbose=0)
    assert heard == ["report 1", "report 2", "report 3"]
    written = {path.parent.parent.name for path in results.glob("*/*/result.json")}
    assert written == {"usual"}


def test_resuming_without_a_name_goes_on_with_the_newest_of_that_trainable(results: Path) -> None:
    first, second = (
        tune.run(Counter, stop={"count": count}, checkpoint_freq=1, verbose=0).experiment_path for count in (2, 3)
    )
    tune.run(report, verbose=0)
    again = tune.run(Counter, stop={"count": 9}, resume=True, verbose=0)
    assert again.experiment_path == second != first and [trial.results for trial in again.trials] == [3]
    os.utime(Path(first, "experiment.log"), (2e9, 2e9))
    assert tune.run(Counter, resume="LOCAL", verbose=0).experiment_path == first

    class Other(Counter):
        pass

    with pytest.raises(ValueError, match=r"resume is True, but there is no experiment in .*/Other: check its name"):
        tune.run(Other, resume=True, verbose=0)


class Doubling(Searcher):
    """As the guide to searchers writes them: what is not needed of the end of a trial is `**kwargs`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(metric="loss", mode="min", **kwargs)
        self.x: dict[str, int] = {}
        self.heard: list[Any] = []

    def suggest(self, trial_id: str) -> dict[str, Any]:
        self.x[trial_id] = 2 ** len(self.x)
        return {"x": self.x[trial_id]}

    def on_trial_complete(self, trial_id: str, result: Any, **kwargs: Any) -> None:
        self.heard.append((self.x[trial_id], result and result["loss"], kwargs["error"]))


@pytest.mark.parametrize("wrap", [lambda it: it, lambda it: ConcurrencyLimiter(it, 2), lambda it: Repeater(it, 1)])
def test_a_searcher_may_take_what_it_does_not_need_as_further_arguments(wrap: Callable[[Any], Any]) -> None:
    searcher = Doubling()
    tune.run(report, search_alg=wrap(searcher), num_samples=3, max_concurrent_trials=1, verbose=0)
    assert searcher.heard == [(1, 1, False), (2, 2, False), (4, 4, False)]


def test_arguments_of_searchers_that_there_are_not() -> None:
    with pytest.raises(ArgumentError, match=r"^Doubling has no argument 'max_concurrent'\.$"):
        Doubling(max_concurrent=3)
    with pytest.raises(ArgumentError, match=r"^TPESearch has no argument 'n_candidate'\. Did you mean 'n_candidates'"):
        TPESearch(n_candidate=3)


def test_a_searcher_gets_no_result_of_a_trial_that_failed() -> None:
    def fail(config: dict[str, Any]) -> None:
        tune.report(loss=config["x"])
        raise ZeroDivisionError

    searcher = Doubling()
    trials = tune.run(fail, search_alg=searcher, num_samples=1, raise_on_failed_trial=False, verbose=0).trials
    assert trials[0].last_result["loss"] == 1 and searcher.heard == [(1, None, True)]


def test_the_best_by_what_the_searcher_or_the_scheduler_goes_by() -> None:
    searched = tune.run(report, search_alg=ConcurrencyLimiter(Doubling(), 2), num_samples=2, verbose=0)
    assert searched.get_best_config() == {"x": 1} and searched.best_config == {"x": 1}
    scheduler = AsyncHyperBandScheduler(metric="score", mode="max")
    space = {"x": tune.grid_search([1, 5, 2])}
    assert tune.run(report, config=space, scheduler=scheduler, verbose=0).get_best_config() == {"x": 5}
    with pytest.raises(ValueError, match="by which metric"):
        tune.run(report, verbose=0).get_best_config()


def test_a_scheduler_may_ask_for_room_by_resources() -> None:
    asked: list[bool] = []

    class Asking(TrialScheduler):
        def choose_trial_to_run(self, trial_runner: Any) -> Any:
            for trial in trial_runner.get_trials():
                if trial.status == "PENDING" and trial_runner.has_resources(trial.resources):
                    asked.append(trial_runner.has_resources({"cpu": 1000}))
                    return trial
            return None

    assert [trial.results for trial in tune.run(report, num_samples=2, scheduler=Asking(), verbose=0).trials] == [3, 3]
    assert asked and not any(asked)

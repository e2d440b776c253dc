"""Arguments of `ray.tune` under the names that earlier releases had for them."""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from kernel_compat_ray import finder

from kernel.runs.arguments import ArgumentError
from kernel.tune import schedulers as library
from kernel.tune.searchers import RandomSearch, Searcher, SigOptSearch


@pytest.fixture(scope="module")
def tune() -> Iterator[ModuleType]:
    finder.install_finder()
    yield importlib.import_module("ray.tune")
    finder.remove_finder()


COMPARING = ["AsyncHyperBandScheduler", "HyperBandScheduler", "HyperBandForBOHB", "MedianStoppingRule"]


@pytest.mark.parametrize("name", COMPARING)
def test_reward_attr_is_the_metric_of_schedulers(tune: ModuleType, name: str) -> None:
    made = getattr(tune.schedulers, name)
    with pytest.warns(DeprecationWarning, match=f"^reward_attr of {name} is an old name; use metric$") as warned:
        scheduler = made(reward_attr="gain")
    assert warned[0].filename == __file__
    assert isinstance(scheduler, getattr(library, name)) and scheduler.metric == "gain"
    assert made(reward_attr=None).metric == "episode_reward_mean"
    assert pickle.loads(pickle.dumps(scheduler)).metric == "gain"


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("asha", "ASHAScheduler"),
        ("async_hyperband", "AsyncHyperBandScheduler"),
        ("AsyncHyperBand", "AsyncHyperBandScheduler"),
        ("hyperband", "HyperBandScheduler"),
        ("hb_bohb", "HyperBandForBOHB"),
        ("median_stopping_rule", "MedianStoppingRule"),
        ("medianstopping", "MedianStoppingRule"),
        ("pbt", "PopulationBasedTraining"),
        ("pb2", "PB2"),
    ],
)
def test_a_scheduler_that_is_made_by_its_name_takes_them_too(tune: ModuleType, name: str, made: str) -> None:
    assert tune.create_scheduler is tune.schedulers.create_scheduler
    space = {"pbt": {"hyperparam_mutations": {"x": [1, 2]}}, "pb2": {"hyperparam_bounds": {"x": [0, 1]}}}.get(name, {})
    with pytest.warns(DeprecationWarning, match=f"^reward_attr of {getattr(tune.schedulers, made).__name__} is an old"):
        scheduler = tune.create_scheduler(name, reward_attr="gain", **space)
    assert type(scheduler) is getattr(tune.schedulers, made) and scheduler.metric == "gain"
    assert type(scheduler).__bases__[0] is type(library.create_scheduler(name, **space))


def test_schedulers_without_older_names_are_made_by_their_names_as_well(tune: ModuleType) -> None:
    assert type(tune.create_scheduler("fifo")) is library.FIFOScheduler
    with pytest.raises(ArgumentError, match="^there is no scheduler 'hyperbnd'"):
        tune.create_scheduler("hyperbnd")
    with pytest.raises(ArgumentError, match="^AsyncHyperBandScheduler has no argument 'max_iter'"):
        tune.create_scheduler("asha", max_iter=3)


def test_names_of_an_older_manual_are_those_of_today(tune: ModuleType) -> None:
    from_module = importlib.import_module("ray.tune.schedulers.pbt").PopulationBasedTraining
    assert from_module is tune.schedulers.PopulationBasedTraining
    with pytest.warns(DeprecationWarning) as caught:
        scheduler = from_module(hyparam_mutations={"x": [1, 2]}, sample_probability=0.5, reward_attr="gain")
    assert [str(each.message) for each in caught] == [
        "hyparam_mutations of PopulationBasedTraining is an old name; use hyperparam_mutations",
        "sample_probability of PopulationBasedTraining is an old name; use resample_probability",
        "reward_attr of PopulationBasedTraining is an old name; use metric",
    ]
    assert scheduler._mutations == {"x": [1, 2]} and scheduler._resample_probability == 0.5
    assert scheduler.metric == "gain"


def test_schedulers_are_derived_from_each_other_as_before(tune: ModuleType) -> None:
    found = tune.schedulers
    assert issubclass(found.PB2, found.PopulationBasedTraining)
    assert issubclass(found.HyperBandForBOHB, found.HyperBandScheduler)
    assert found.ASHAScheduler is found.AsyncHyperBandScheduler
    with pytest.warns(DeprecationWarning, match="reward_attr of PB2 is an old name"):
        scheduler = found.PB2(hyperparam_bounds={"x": [0, 1]}, reward_attr="gain")
    assert scheduler.metric == "gain"
    with pytest.raises(ArgumentError, match="'hyperparam_bound'. Did you mean 'hyperparam_bounds'"):
        found.PB2(hyperparam_bounds={"x": [0, 1]}, hyperparam_bound={})


def test_a_scheduler_of_ones_own_takes_them_too(tune: ModuleType) -> None:
    class Mine(tune.schedulers.ASHAScheduler):  # type: ignore[misc, name-defined]
        def __init__(self, **arguments: Any) -> None:
            super().__init__(**arguments)

    with pytest.warns(DeprecationWarning, match="reward_attr of Mine is an old name"):
        assert Mine(reward_attr="gain").metric == "gain"


@pytest.mark.parametrize(
    ("name", "given", "new", "place"),
    [
        ("uniform", {"low": 1, "upper": 10}, "lower", (1, 10)),
        ("uniform", {"lower": 1, "high": 10}, "upper", (1, 10)),
        ("loguniform", {"min_bound": 1e-4, "upper": 1e-2}, "lower", (1e-4, 1e-2)),
        ("loguniform", {"lower": 1e-4, "max_bound": 1e-2}, "upper", (1e-4, 1e-2)),
        ("choice", {"a": [3, 4]}, "categories", ([3, 4],)),
    ],
)
@pytest.mark.parametrize("module", ["ray.tune", "ray.tune.search.sample"])
def test_bounds_and_values_of_search_spaces(
    tune: ModuleType, module: str, name: str, given: dict[str, Any], new: str, place: tuple[Any, ...]
) -> None:
    function = getattr(importlib.import_module(module), name)
    with pytest.warns(DeprecationWarning, match=rf" of {name}\(\) is an old name; use {new}$") as warned:
        assert repr(function(**given)) == repr(function(*place))
    assert warned[0].filename == __file__


def test_reward_attr_is_the_metric_of_sigopt(tune: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGOPT_KEY", "not needed before the first trial")
    found = importlib.import_module("ray.tune.search.sigopt").SigOptSearch
    assert issubclass(found, SigOptSearch)
    with pytest.raises(ArgumentError, match=r"^SigOptSearch has no argument 'reward_attr'.* metric, "):
        SigOptSearch(reward_attr="gain")
    with pytest.warns(DeprecationWarning, match="reward_attr of SigOptSearch is an old name; use metric"):
        searcher = found([{"name": "x", "type": "double", "bounds": {"min": 0, "max": 1}}], reward_attr="gain")
    assert searcher.metric == "gain"


LIBRARIES_OF_SEARCHERS = {
    "bayesopt": ("BayesOptSearch", "bayes_opt"),
    "hyperopt": ("HyperOptSearch", "hyperopt"),
    "nevergrad": ("NevergradSearch", "nevergrad"),
    "optuna": ("OptunaSearch", "optuna"),
    "skopt": ("SkOptSearch", "skopt"),
}
LIMITS = {"max_concurrent": 3, "use_early_stopped_trials": True}


@pytest.mark.parametrize("name", LIBRARIES_OF_SEARCHERS)
def test_limits_that_searchers_had_are_ignored(tune: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    searcher, library_name = LIBRARIES_OF_SEARCHERS[name]
    library = ModuleType(library_name)
    library.optimizers = SimpleNamespace(base=SimpleNamespace(Optimizer=bytes))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, library_name, library)
    found = getattr(importlib.import_module(f"ray.tune.search.{name}"), searcher)
    for made in (found(metric="gain", **LIMITS), tune.create_searcher(name, metric="gain", **LIMITS)):
        assert type(made) is found and made.metric == "gain" and isinstance(made, tune.Searcher)
    with pytest.raises(ArgumentError, match=f"^{searcher} has no argument 'max_concurrnt'"):
        found(max_concurrnt=3)
    with pytest.raises(ArgumentError, match=f"^{searcher} has no argument 'max_concurrent'"):
        getattr(tune.searchers, searcher)(max_concurrent=3)


def test_a_searcher_of_ones_own_takes_limits_too(tune: ModuleType) -> None:
    class Mine(tune.Searcher):  # type: ignore[misc, name-defined]
        def __init__(self, **arguments: Any) -> None:
            super().__init__(metric="gain", **arguments)

    mine = Mine(mode="min", **LIMITS)
    assert (mine.metric, mine.mode) == ("gain", "min") and isinstance(mine, Searcher)
    assert not isinstance(RandomSearch(), Mine) and isinstance(RandomSearch(), tune.Searcher)
    assert not isinstance(len, tune.Searcher)
    bohb = importlib.import_module("ray.tune.search.bohb").TuneBOHB(max_concurrent=2, use_early_stopped_trials=False)
    assert bohb._most == 2


def test_searchers_of_kernel_are_made_by_their_names(tune: ModuleType) -> None:
    assert type(tune.create_searcher("random")) is RandomSearch
    with pytest.raises(ValueError, match="there is no searcher 'optna'; did you mean 'optuna'"):
        tune.create_searcher("optna")

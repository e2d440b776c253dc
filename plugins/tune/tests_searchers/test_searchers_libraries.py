"""Searchers that ask other libraries, against the real ones.

Run by hand, where some of the libraries are installed; those that are missing must say so.
`pip install optuna hyperopt bayesian-optimization nevergrad scikit-optimize zoopt ConfigSpace ax-platform sigopt`, and
in environments of their own `pip install 'HEBO>=0.3.6' 'GPy<1.14' 'numpy<1.25' 'pandas<2.3'` (Python 3.11 at most), and
`pip install dragonfly-opt 'numpy<2'` (numpy must be there when that is built). Nevergrad wants bayesian-optimization
1.4: the newest is to be tried without it.
"""

from __future__ import annotations

import importlib.util
import pickle
from typing import Any

import numpy as np
import pytest
from kernel_tune import search_space as tune
from kernel_tune.errors import OptionalDependencyError, SearchSpaceError
from kernel_tune.searchers import FINISHED, RandomSearch, Searcher
from kernel_tune.searchers.adapters.ax import AxSearch
from kernel_tune.searchers.adapters.bayesopt import BayesOptSearch
from kernel_tune.searchers.adapters.bohb import TuneBOHB
from kernel_tune.searchers.adapters.dragonfly import DragonflySearch
from kernel_tune.searchers.adapters.hebo import HEBOSearch
from kernel_tune.searchers.adapters.hyperopt import HyperOptSearch
from kernel_tune.searchers.adapters.nevergrad import NevergradSearch
from kernel_tune.searchers.adapters.optuna import OptunaSearch
from kernel_tune.searchers.adapters.sigopt import SigOptSearch
from kernel_tune.searchers.adapters.sigopt_client import SigOptClient
from kernel_tune.searchers.adapters.skopt import SkOptSearch
from kernel_tune.searchers.adapters.zoopt import ZOOptSearch
from kernel_tune.testing.searchers import SearcherConformance
from kernel_tune.testing.sigopt_server import SigOptServer

BOX = {"x": tune.uniform(-1, 1), "y": tune.uniform(-1, 1)}


def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def bowl(config: dict[str, Any]) -> float:
    return (config["x"] - 0.3) ** 2 + (config["y"] + 0.4) ** 2


def play(searcher: Searcher, trials: int, loss: Any = bowl) -> list[Any]:
    losses = []
    for number in range(trials):
        config = searcher.suggest(str(number))
        if config is None or config == FINISHED:
            continue
        losses.append(loss(config))
        searcher.on_trial_result(str(number), {"loss": losses[-1]})
        searcher.on_trial_complete(str(number), {"loss": losses[-1]})
    return losses


LIBRARIES: list[tuple[str, Any, int]] = [
    ("optuna", OptunaSearch, 40),
    ("hyperopt", HyperOptSearch, 40),
    ("bayes_opt", BayesOptSearch, 18),
    ("nevergrad", NevergradSearch, 40),
    ("skopt", SkOptSearch, 14),
    ("zoopt", lambda **options: ZOOptSearch(budget=40, **options), 40),
    ("hebo", lambda **options: HEBOSearch(max_concurrent=1, **options), 9),
    ("dragonfly", DragonflySearch, 18),
]


class TestTuneBOHB(SearcherConformance):
    make_searcher = staticmethod(TuneBOHB)


if has("optuna"):

    class TestOptuna(SearcherConformance):
        make_searcher = staticmethod(OptunaSearch)
        trials = 20


if has("hyperopt"):

    class TestHyperOpt(SearcherConformance):
        make_searcher = staticmethod(lambda **options: HyperOptSearch(n_initial_points=8, **options))
        trials = 20


if has("bayes_opt"):

    class TestBayesOpt(SearcherConformance):
        make_searcher = staticmethod(lambda **options: BayesOptSearch(random_search_steps=5, **options))
        trials = 12


if has("nevergrad"):

    class TestNevergrad(SearcherConformance):
        make_searcher = staticmethod(NevergradSearch)
        trials = 20


if has("skopt"):

    class TestSkOpt(SearcherConformance):
        make_searcher = staticmethod(SkOptSearch)
        trials = 12


if has("zoopt"):

    class TestZOOpt(SearcherConformance):
        make_searcher = staticmethod(lambda **options: ZOOptSearch(budget=20, **options))
        trials = 20


@pytest.mark.timeout(600)  # HEBO and Dragonfly think for minutes, on a busy machine.
@pytest.mark.parametrize(("module", "make", "trials"), LIBRARIES)
def test_a_library_learns_or_says_that_it_is_missing(module: str, make: Any, trials: int) -> None:
    if not has(module):
        with pytest.raises(OptionalDependencyError, match=rf"'{module}', which is not installed. Run: pip install"):
            make(space=BOX)
        return
    ours = [min(play(make(space=BOX, metric="loss", mode="min", seed=s), trials)) for s in range(3)]
    chance = [min(play(RandomSearch(BOX, "loss", "min", seed=s), trials)) for s in range(3)]
    assert np.median(ours) < np.median(chance)
    best = max(play(make(space=BOX, metric="loss", mode="max", seed=0), trials, lambda config: -bowl(config)))
    assert best == -ours[0], "the mode only turns the sign"


if has("optuna"):

    def test_optuna_with_distributions_functions_and_a_sampler_of_the_users() -> None:
        import optuna

        native = {"x": optuna.distributions.FloatDistribution(-1, 1), "y": optuna.distributions.IntDistribution(0, 3)}
        config = OptunaSearch(native, "loss", "min", seed=1).suggest("0")
        assert isinstance(config, dict) and -1 <= config["x"] <= 1 and config["y"] in range(4)

        def define(trial: Any) -> dict[str, Any]:
            if trial.suggest_categorical("kind", ["a", "b"]) == "a":
                trial.suggest_float("x", 0, 1)
            return {"constant": 5}

        sampler = optuna.samplers.RandomSampler(seed=3)
        searcher = OptunaSearch(define, "loss", "min", sampler=sampler)
        configs = [searcher.suggest(str(n)) for n in range(10)]
        assert all(c["constant"] == 5 and ("x" in c) == (c["kind"] == "a") for c in configs if isinstance(c, dict))

    def test_optuna_with_several_metrics() -> None:
        searcher = OptunaSearch(BOX, metric=["a", "b"], mode=["min", "max"], seed=1)
        assert (searcher.metric, searcher.mode) == (["a", "b"], ["min", "max"])
        for number in range(15):
            config = searcher.suggest(str(number))
            assert isinstance(config, dict)
            searcher.on_trial_complete(str(number), {"a": config["x"], "b": config["y"]} if number != 3 else {"a": 1.0})
        study = searcher._optimizer
        assert len(study.best_trials) >= 1 and [d.name for d in study.directions] == ["MINIMIZE", "MAXIMIZE"]
        assert sum(trial.state.name == "FAIL" for trial in study.trials) == 1

    def test_optuna_learns_from_evaluated_points() -> None:
        searcher = OptunaSearch(BOX, "loss", "min", points_to_evaluate=[{"x": 0.0, "y": 0.5}], evaluated_rewards=[3.0])
        searcher.add_evaluated_point({"x": 0.5, "y": 0.5}, 1.5)
        searcher.suggest("0")
        assert [trial.value for trial in searcher._optimizer.trials] == [3.0, 1.5, None]


if has("hyperopt"):

    def test_hyperopt_with_a_space_of_its_own() -> None:
        from hyperopt import hp

        space = {"x": hp.uniform("x", 0, 10), "kind": hp.choice("kind", ["a", {"deep": hp.randint("deep", 5)}])}
        searcher = HyperOptSearch(space, "loss", "min", random_state_seed=1, points_to_evaluate=[{"x": 1, "kind": 0}])
        assert searcher.suggest("0") == {"x": 1, "kind": "a"}
        configs = [searcher.suggest(str(n)) for n in range(1, 12)]
        assert any(
            isinstance(c, dict) and isinstance(c["kind"], dict) and c["kind"]["deep"] in range(5) for c in configs
        )


if has("skopt"):

    def test_skopt_with_an_optimizer_and_names() -> None:
        import skopt

        optimizer = skopt.Optimizer([(0.0, 20.0), (-100.0, 100.0)], random_state=1)
        known = [[10.0, 0.0], [15.0, -20.0]]
        searcher = SkOptSearch(optimizer, ["width", "height"], "loss", "min", points_to_evaluate=known)
        assert searcher.suggest("0") == {"width": 10.0, "height": 0.0}
        told = SkOptSearch(optimizer, ["width", "height"], "loss", "min", known, evaluated_rewards=[1.0, 2.0])
        assert told.suggest("0") != {"width": 10.0, "height": 0.0} and optimizer.yi == [1.0, 2.0]
        with pytest.raises(SearchSpaceError, match="no names of its dimensions"):
            SkOptSearch(optimizer)


if has("nevergrad"):

    def test_nevergrad_with_optimizers_of_all_kinds() -> None:
        import nevergrad as ng

        parameter = ng.p.Instrumentation(x=ng.p.Scalar(lower=0, upper=1), kind=ng.p.Choice(["a", "b"]))
        config = NevergradSearch(ng.optimizers.OnePlusOne, {"budget": 10}, parameter, "loss", "min").suggest("0")
        assert isinstance(config, dict) and 0 <= config["x"] <= 1 and config["kind"] in "ab"
        optimizer = ng.optimizers.OnePlusOne(parametrization=2, budget=10)
        named = NevergradSearch(optimizer, ["height", "width"], metric="loss", mode="min").suggest("0")
        assert isinstance(named, dict) and set(named) == {"height", "width"}
        assert isinstance(NevergradSearch("TwoPointsDE", space=BOX).suggest("0"), dict)


if has("bayes_opt"):

    def test_bayesopt_with_bounds_and_patience() -> None:
        searcher = BayesOptSearch({"x": (0, 20), "y": (-100, 100)}, "loss", "min", random_search_steps=2,
                                  utility_kwargs={"kind": "ei", "kappa": 2.5, "xi": 0.01})  # fmt: skip
        losses = play(searcher, 12, lambda c: (c["x"] - 3) ** 2 + c["y"] ** 2 / 100)
        assert len(losses) == 12 and min(losses) < 20
        stuck = BayesOptSearch({"x": (0, 1)}, "loss", "min", random_search_steps=0, repeat_float_precision=-1)
        assert isinstance(stuck.suggest("0"), dict) and stuck.suggest("1") == FINISHED
        with pytest.raises(SearchSpaceError, match="utility_kwargs has kind 'best'"):
            BayesOptSearch(BOX, utility_kwargs={"kind": "best"})


if has("zoopt"):

    def test_zoopt_with_dimensions_of_its_own() -> None:
        from zoopt import ValueType

        space = {"x": (ValueType.CONTINUOUS, [0, 1], 1e-2), "n": (ValueType.DISCRETE, [1, 3], False)}
        config = ZOOptSearch("Asracos", 20, space, "loss", "min", max_concurrent=4).suggest("0")
        assert isinstance(config, dict) and 0 <= config["x"] <= 1 and config["n"] in (1, 2, 3)
        with pytest.raises(SearchSpaceError, match="budget is missing"):
            ZOOptSearch(dim_dict=space)


if has("ax"):

    class TestAx(SearcherConformance):
        make_searcher = staticmethod(AxSearch)
        trials = 6

    def test_ax_with_a_client_and_constraints() -> None:
        from ax.service.ax_client import AxClient, ObjectiveProperties

        parameters = [{"name": name, "type": "range", "bounds": [0.0, 1.0]} for name in ("x", "y")]
        client = AxClient(enforce_sequential_optimization=False, verbose_logging=False, random_seed=1)
        client.create_experiment(parameters=parameters, objectives={"gain": ObjectiveProperties(minimize=False)})
        searcher = AxSearch(client, max_concurrent=4)
        assert (searcher.metric, searcher.mode) == ("gain", "max")
        first, second = searcher.suggest("0"), searcher.suggest("1")
        assert isinstance(first, dict) and set(first) == {"x", "y"} and first != second
        searcher.on_trial_complete("0", {"gain": 1.0})
        searcher.on_trial_complete("1", {"gain": float("nan")})
        assert [trial.status.name for trial in client.experiment.trials.values()] == ["COMPLETED", "FAILED"]
        bound = AxSearch(parameters, "gain", "max", parameter_constraints=["x + y <= 1"],
                         outcome_constraints=["size <= 3"], seed=1)  # fmt: skip
        for number in range(4):
            config = bound.suggest(str(number))
            assert isinstance(config, dict) and config["x"] + config["y"] <= 1.0001
            bound.on_trial_complete(str(number), {"gain": config["x"], "size": 2.0})


if has("hebo"):

    class TestHEBO(SearcherConformance):
        make_searcher = staticmethod(lambda **options: HEBOSearch(max_concurrent=16, rand_sample=6, **options))
        trials = 8

    def test_hebo_with_a_design_space() -> None:
        from hebo.design_space.design_space import DesignSpace

        items = [
            {"name": "x", "type": "num", "lb": 0, "ub": 20},
            {"name": "k", "type": "cat", "categories": ["a", "b"]},
        ]
        searcher = HEBOSearch(DesignSpace().parse(items), "loss", "min", [{"x": 3.0, "k": "b"}], random_state_seed=1)
        assert searcher.suggest("0") == {"x": 3.0, "k": "b"}
        config = searcher.suggest("1")
        assert isinstance(config, dict) and type(config["x"]) is float and config["k"] in "ab"
        searcher.on_trial_complete("0", {"loss": 1.0})
        known = HEBOSearch(BOX, "loss", "min", [{"x": 0.0, "y": 0.5}], [2.0])
        known.suggest("0")
        assert known._optimizer.y.tolist() == [[2.0]]


if has("dragonfly"):

    class TestDragonflyAtRandom(SearcherConformance):
        make_searcher = staticmethod(lambda **options: DragonflySearch("random", "cartesian", **options))
        trials = 20

    @pytest.mark.parametrize(("kind", "domain"), [("bandit", "cartesian"), ("genetic", "cartesian")])
    def test_dragonfly_keeps_categories(kind: str, domain: str) -> None:
        space = {"x": tune.uniform(0, 1), "n": tune.randint(0, 8), "kind": tune.choice(["a", "b", "c"])}
        searcher = DragonflySearch(kind, domain, space, "loss", "min", random_state_seed=2)
        losses = play(searcher, 14, lambda config: config["x"] + config["n"] + 3 * (config["kind"] != "b"))
        assert len(losses) == 14 and min(losses) < 5
        restored = DragonflySearch(kind, domain, space, "loss", "min")
        restored.set_state(pickle.loads(pickle.dumps(searcher.get_state())))
        assert restored.suggest("next") == searcher.suggest("next")

    def test_dragonfly_with_an_optimiser_of_its_own() -> None:
        from dragonfly import load_config
        from dragonfly.exd.experiment_caller import EuclideanFunctionCaller
        from dragonfly.opt.random_optimiser import EuclideanRandomOptimiser

        names = ["LiNO3_vol", "Li2SO4_vol", "NaClO4_vol"]
        variables = [{"name": name, "type": "float", "min": 0, "max": 7} for name in names]
        caller = EuclideanFunctionCaller(None, load_config({"domain": variables}).domain.list_of_domains[0])
        optimizer = EuclideanRandomOptimiser(caller, ask_tell_mode=True)
        searcher = DragonflySearch(optimizer, metric="objective", mode="max", points_to_evaluate=[[1, 2, 3]])
        assert searcher.suggest("0") == {"point": [1, 2, 3]}
        searcher.on_trial_complete("0", {"objective": 5.0})
        config = searcher.suggest("1")
        assert isinstance(config, dict) and all(0 <= value <= 7 for value in config["point"])
        assert optimizer.history.query_vals == [5.0]


if has("sigopt"):

    def test_sigopts_own_client_asks_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
        import sigopt

        parameters = [{"name": "x", "type": "double", "bounds": {"min": 0, "max": 6}}]
        metrics = [{"name": "loss", "objective": "minimize", "strategy": "optimize"}]
        with SigOptServer() as server:
            monkeypatch.setenv("SIGOPT_API_URL", server.url)
            searcher = SigOptSearch(parameters, "e", connection=SigOptClient("token"), metric="loss", mode="min")
            config = searcher.suggest("0")
            searcher.on_trial_complete("0", {"loss": 1.0})
            ours, server.requests = server.requests, []
            theirs = sigopt.Connection(client_token="token")
            experiment = theirs.experiments().create(
                name="e", parameters=parameters, metrics=metrics, parallel_bandwidth=1, metadata=ours[0][2]["metadata"]
            )
            suggestions = theirs.experiments(experiment.id).suggestions()
            suggestion = suggestions.create(metadata=ours[1][2]["metadata"])
            assert dict(suggestion.assignments) == config and suggestion.state == "open"
            values = [{"name": "loss", "value": 1.0}]
            theirs.experiments(experiment.id).observations().create(suggestion=suggestion.id, values=values)
            moved = [(method, path.replace("/2/", "/1/"), body) for method, path, body in server.requests]
            moved[2][2]["suggestion"] = "1"
            assert moved == ours
            assert [each.id for each in theirs.experiments().fetch().iterate_pages()] == ["2", "1"]
            assert [each.state for each in suggestions.fetch().iterate_pages()] == ["closed"]


if has("ConfigSpace"):

    def test_tune_bohb_with_a_configuration_space() -> None:
        import ConfigSpace

        space = ConfigSpace.ConfigurationSpace(seed=1)
        space.add(ConfigSpace.UniformFloatHyperparameter("rate", 1e-4, 1, log=True))
        space.add(ConfigSpace.UniformIntegerHyperparameter("units", 1, 8))
        space.add(ConfigSpace.CategoricalHyperparameter("kind", ["a", "b"]))
        space.add(ConfigSpace.Constant("fixed", 3))
        searcher = TuneBOHB(space, {"num_samples": 16}, 4, "loss", "min", seed=1)
        config = searcher.suggest("0")
        assert isinstance(config, dict) and list(config) == sorted(config, key=list(space).index)
        assert config["fixed"] == 3 and config["units"] in range(1, 9) and 1e-4 <= config["rate"] <= 1
        assert [searcher.suggest(str(n)) is None for n in range(1, 5)] == [False, False, False, True]
        pickle.dumps(searcher.get_state())

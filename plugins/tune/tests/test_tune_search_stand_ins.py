"""HEBO's and Dragonfly's searchers with stand-ins for these libraries, which have the parts of them that are asked."""

from __future__ import annotations

import random
import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas
import pytest
from kernel_tune import search_space as tune
from kernel_tune.errors import OptionalDependencyError, SearchSpaceError
from kernel_tune.searchers import DragonflySearch, HEBOSearch, create_searcher
from kernel_tune.testing.searchers import SearcherConformance, check_inside

BOX = {"x": tune.uniform(-1, 1), "n": tune.randint(0, 4), "kind": tune.choice(["a", "b"])}


class DesignSpace:
    """HEBO's: parameters with a type each."""

    def parse(self, items: list[dict[str, Any]]) -> DesignSpace:
        self.items = items
        self.para_names = [item["name"] for item in items]
        return self


class HEBO:
    """Draws as HEBO does, from numpy's and torch's global generators, and from new ones without a seed."""

    def __init__(self, space: DesignSpace, scramble_seed: int | None = None, model_name: str = "gp") -> None:
        self.space, self.seed, self.model_name = space, scramble_seed, model_name
        self.asked: list[int] = []
        self.y: list[float] = []

    def suggest(self, n_suggestions: int = 1) -> pandas.DataFrame:
        self.asked.append(n_suggestions)
        rows = [{item["name"]: self._draw(item) for item in self.space.items} for _ in range(n_suggestions)]
        return pandas.DataFrame(rows, dtype=object)

    def _draw(self, item: dict[str, Any]) -> Any:
        if item["type"] == "cat":
            return np.random.choice(item["categories"])
        if item["type"] == "int":
            return np.int64(np.random.randint(item["lb"], item["ub"] + 1))
        more = 1e-9 * (Torch.drawn() + np.random.default_rng().random())
        return np.float64(np.random.uniform(item["lb"], item["ub"]) + more)

    def observe(self, frame: pandas.DataFrame, y: np.ndarray[Any, Any]) -> None:
        assert list(frame.columns) == self.space.para_names and y.shape == (1, 1)
        self.y.append(float(y[0, 0]))


class Torch:
    """torch.random, as far as it matters here."""

    generator = random.Random()

    @classmethod
    def drawn(cls) -> float:
        return cls.generator.random()

    @classmethod
    @contextmanager
    def fork_rng(cls, devices: Any) -> Any:
        state = cls.generator.getstate()
        yield
        cls.generator.setstate(state)


@pytest.fixture(autouse=True)
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    def module(name: str, **names: Any) -> None:
        made = ModuleType(name)
        made.__dict__.update(names)
        monkeypatch.setitem(sys.modules, name, made)

    for package in ("hebo", "hebo.optimizers", "hebo.design_space", "dragonfly.exd", "dragonfly.opt"):
        module(package)
    module("hebo.optimizers.hebo", HEBO=HEBO)
    module("hebo.design_space.design_space", DesignSpace=DesignSpace)
    module("torch", random=Torch, manual_seed=Torch.generator.seed)
    module("dragonfly", load_config=load_config)
    module("dragonfly.exd.experiment_caller", EuclideanFunctionCaller=Caller, CPFunctionCaller=Caller)
    module("dragonfly.opt.gp_bandit", EuclideanGPBandit=Bandit, CPGPBandit=Bandit, np=np)
    module("dragonfly.opt.random_optimiser", EuclideanRandomOptimiser=Bandit, CPRandomOptimiser=Bandit)
    module("dragonfly.opt.cp_ga_optimiser", CPGAOptimiser=Bandit)


def load_config(config: dict[str, Any]) -> Any:
    return SimpleNamespace(
        domain=SimpleNamespace(list_of_domains=[config["domain"]], variables=config["domain"]), domain_orderings="o"
    )


class Caller:
    """What knows an optimiser's domain."""

    def __init__(self, function: None, domain: Any, domain_orderings: Any = None) -> None:
        assert (domain_orderings is None) == isinstance(domain, list)
        self.variables = domain if isinstance(domain, list) else domain.variables


class Bandit:
    """An optimiser that maximizes, and draws from numpy's global generator."""

    def __init__(self, caller: Caller, ask_tell_mode: bool = False) -> None:
        assert ask_tell_mode
        self.caller = caller
        self.told: list[Any] | None = None
        self.options = SimpleNamespace(build_new_model_every=17)
        self.first_qinfos = ["a point to begin with"]
        self.step_idx = self.last_model_build_at = 0
        self.fitted_at: list[int] = []

    def initialise(self) -> None:
        self.told = []

    def _build_new_model(self) -> None:
        assert self.told is not None
        self.last_model_build_at = self.step_idx
        self.fitted_at.append(len(self.told))

    def ask(self) -> list[Any]:
        assert self.told is not None
        self.first_qinfos = []
        numpy = getattr(sys.modules["dragonfly.opt.gp_bandit"], "np")  # noqa: B009 - a module that mypy knows not
        point: list[Any] = []
        for variable in self.caller.variables:
            if variable["type"] == "discrete":
                point.append(str(numpy.random.choice(variable["items"])))
            elif variable["type"] == "int":
                point.append(numpy.array(numpy.random.randint(variable["min"], variable["max"] + 1), numpy.int)[()])
            else:
                point.append(numpy.random.uniform(variable["min"], variable["max"]))
        return point

    def tell(self, points: list[Any]) -> None:
        assert self.told is not None
        self.told += points


class TestHEBO(SearcherConformance):
    make_searcher = staticmethod(lambda **options: HEBOSearch(max_concurrent=16, **options))
    trials = 8


class TestDragonfly(SearcherConformance):
    make_searcher = staticmethod(DragonflySearch)
    trials = 8


def test_dragonfly_in_its_own_kinds() -> None:
    searcher = DragonflySearch("genetic", space=BOX, metric="loss", mode="min", seed=1,
                               points_to_evaluate=[{"x": 0.5, "n": 2, "kind": "b"}])  # fmt: skip
    assert searcher.suggest("0") == {"x": 0.5, "n": 2, "kind": "b"}
    searcher.on_trial_complete("0", {"loss": 1.0})
    for number in range(1, 9):
        check_inside(BOX, searcher.suggest(str(number)), "")
    (((place, cell, category), gain),) = searcher._optimizer.told
    assert (place, cell, category, gain) == (pytest.approx(0.75), 2, "1", -1.0)


def test_hebo_fills_the_room_that_there_is() -> None:
    searcher = HEBOSearch(BOX, "loss", "max", seed=1, max_concurrent=3, model_name="rf")
    assert [searcher.suggest(n) is None for n in "abcd"] == [False, False, False, True]
    searcher.on_trial_complete("a", {"loss": 2.0})
    searcher.on_trial_complete("b", {"loss": float("nan")})
    assert isinstance(searcher.suggest("e"), dict)
    hebo = searcher._optimizer
    assert (hebo.asked, hebo.y, hebo.model_name) == ([3, 2], [-2.0], "rf")
    kinds = [{key: value for key, value in item.items() if key != "name"} for item in hebo.space.items]
    assert kinds == [
        {"type": "num", "lb": 0.0, "ub": 1.0}, {"type": "int", "lb": 0, "ub": 3}, {"type": "cat", "categories": [0, 1]},
    ]  # fmt: skip
    with pytest.raises(SearchSpaceError, match="max_concurrent is 0: at least one trial must be able to run"):
        HEBOSearch(BOX, max_concurrent=0)


def test_hebo_with_a_space_of_its_own_and_known_points() -> None:
    space = DesignSpace().parse([{"name": "width", "type": "num", "lb": 0, "ub": 20}])
    searcher = create_searcher("hebo", space=space, metric="loss", mode="min", random_state_seed=3,
                               points_to_evaluate=[{"width": 1.0}], evaluated_rewards=[0.5])  # fmt: skip
    config = searcher.suggest("0")
    assert isinstance(config, dict) and 0 <= config["width"] <= 20 and type(config["width"]) is float
    assert searcher._optimizer.y == [0.5]  # type: ignore[attr-defined]


@pytest.mark.parametrize("own", [True, False])
def test_dragonfly_fits_its_model_anew(own: bool) -> None:
    optimizer = Bandit(Caller(None, [{"name": "a", "type": "float", "min": 0, "max": 7}]), ask_tell_mode=True)
    arguments = {"space": BOX} if own else {"optimizer": optimizer}
    searcher = DragonflySearch(metric="loss", mode="min", seed=1, **arguments)  # type: ignore[arg-type]
    for number in range(36):
        searcher.suggest(str(number))
        searcher.on_trial_complete(str(number), {"loss": 1.0 if number != 3 else float("nan")})
    assert searcher._optimizer.fitted_at == ([5, 10, 15, 20, 25, 30, 35] if own else [17, 34])


def test_dragonfly_with_an_optimiser_of_the_users() -> None:
    variables = [{"name": name, "type": "float", "min": 0, "max": 7} for name in ("a", "b")]
    optimizer = Bandit(Caller(None, variables), ask_tell_mode=True)
    searcher = DragonflySearch(optimizer, metric="objective", mode="max", points_to_evaluate=[[1.0, 2.0]])
    assert searcher.suggest("0") == {"point": [1.0, 2.0]}
    searcher.on_trial_complete("0", {"objective": 4.0})
    config = searcher.suggest("1")
    assert isinstance(config, dict) and len(config["point"]) == 2 and optimizer.told == [([1.0, 2.0], 4.0)]
    named = DragonflySearch(optimizer, parameter_names=["a", "b"], points_to_evaluate=[[3.0, 4.0]])
    assert named.suggest("0") == {"a": 3.0, "b": 4.0}
    listed = DragonflySearch("random", "euclidean", variables, "loss", "min", [{"a": 1, "b": 2}, [3, 4]], [5.0, 6.0])
    assert isinstance(listed.suggest("0"), dict) and listed._optimizer.told == [([1, 2], -5.0), ([3, 4], -6.0)]
    with pytest.raises(SearchSpaceError, match="has an optimizer, which has a domain: give no domain or space"):
        DragonflySearch(optimizer, space=variables)
    with pytest.raises(SearchSpaceError, match="no optimizer 'genetic' with domain 'euclidean': there are 'random' wi"):
        DragonflySearch("genetic", "euclidean")


def test_dragonfly_says_that_numpy_is_too_new_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Bandit) -> None:
        raise ValueError("setting an array element with a sequence.")

    monkeypatch.setattr(Bandit, "initialise", fail)
    monkeypatch.setattr(np, "__version__", "2.4.6")
    with pytest.raises(OptionalDependencyError, match=r"fails with numpy 2.4.6 \(ValueError: setting .* 'numpy<2'"):
        DragonflySearch(space=BOX, seed=1).suggest("0")
    monkeypatch.setattr(np, "__version__", "1.26.4")
    with pytest.raises(ValueError, match="setting an array"):
        DragonflySearch(space=BOX, seed=1).suggest("0")
    assert not hasattr(np, "int"), "numpy itself stays as it is"

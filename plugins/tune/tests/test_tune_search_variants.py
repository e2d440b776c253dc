"""Variants: how many, in which order, what functions see, and how they are tagged."""

from __future__ import annotations

import random
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
from kernel_tune import search_space as tune
from kernel_tune.errors import SearchSpaceError
from kernel_tune.searchers import BasicVariantGenerator


def configs(space: Any, seed: int = 0, **options: Any) -> list[Any]:
    return [config for _, config in tune.generate_variants(space, random_state=seed, **options)]


def one(space: Any, seed: int = 0) -> Any:
    (config,) = configs(space, seed)
    return config


def test_grids_are_combined_the_first_by_name_changes_fastest() -> None:
    space = {"b": tune.grid_search([1, 2]), "a": {"grid_search": ["x", "y"]}, "c": 7}
    assert [(c["a"], c["b"]) for c in configs(space)] == [("x", 1), ("y", 1), ("x", 2), ("y", 2)]
    assert all(c["c"] == 7 for c in configs(space)) and tune.count_variants(space) == 4


def test_grids_inside_lists_and_dicts() -> None:
    space = {"layers": [tune.grid_search([16, 64, 256]), tune.grid_search([16, 64, 256])], "o": {"p": (1, [2])}}
    assert tune.count_variants(space) == 9 and len({tuple(c["layers"]) for c in configs(space)}) == 9


def test_other_values_are_drawn_for_each_combination() -> None:
    space = {"g": tune.grid_search([1, 2, 3]), "x": tune.uniform(0, 1)}
    assert len({c["x"] for c in configs(space)}) == 3
    assert len({c["x"] for c in configs(space, constant_grid_search=True)}) == 1
    assert configs(space, 4) == configs(space, 4) != configs(space, 5)


def test_constant_grid_search_redraws_what_depends_on_the_grid() -> None:
    space = {
        "g": tune.grid_search([1, 2]),
        "x": tune.uniform(0, 1),
        "y": tune.sample_from(lambda spec: spec.config.g * 10),
        "z": tune.sample_from(lambda spec: spec.config.x + spec.config.y),
    }
    first, second = configs(space, constant_grid_search=True)
    assert first["x"] == second["x"] and (first["y"], second["y"]) == (10, 20)
    assert second["z"] - first["z"] == pytest.approx(10)


def test_functions_see_what_was_chosen_in_any_order() -> None:
    space = {
        "gamma": tune.sample_from(lambda spec: spec.config.beta + 1),
        "beta": tune.sample_from(lambda spec: spec["config"]["alpha"] * 2),
        "alpha": tune.sample_from(lambda spec: spec["inner"]["values"][1]),
        "delta": tune.sample_from(lambda config: config.inner.values[0] + len(config)),
        "plain": tune.sample_from(lambda: 4),
        "inner": {"values": [1, tune.choice([5])]},
        "copied": tune.sample_from(lambda spec: spec.config.inner),
        "wrapped": tune.sample_from(lambda spec: {"in": [spec.config.inner]}),
    }
    config = one(space)
    assert (config["alpha"], config["beta"], config["gamma"], config["plain"]) == (5, 10, 11, 4)
    assert config["copied"] == {"values": [1, 5]} and type(config["copied"]) is dict
    assert config["wrapped"] == {"in": [{"values": [1, 5]}]}


def test_a_key_named_config_is_the_users_own() -> None:
    assert one({"config": {"a": 3}, "b": tune.sample_from(lambda spec: spec.config.a)})["b"] == 3


def test_what_functions_draw_follows_the_seed() -> None:
    space = {"x": tune.sample_from(lambda _: np.random.uniform() + random.random())}
    np.random.seed(1)
    before = np.random.get_state()[1][:5].tolist()
    assert one(space, 3) == one(space, 3) != one(space, 4)
    assert np.random.get_state()[1][:5].tolist() == before, "the program's own random state is left alone"


def test_circles_and_failures_are_named() -> None:
    circle = {"a": tune.sample_from(lambda s: s.config.b), "b": {"c": tune.sample_from(lambda s: s.config.a)}}
    circle["b"] = tune.sample_from(lambda s: s.config.a)
    with pytest.raises(SearchSpaceError, match=r"a -> b -> a"):
        one(circle)
    with pytest.raises(SearchSpaceError, match=r"for 'x/y' failed: ZeroDivisionError") as caught:
        one({"x": {"y": tune.sample_from(lambda _: 1 / 0)}})
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(SearchSpaceError, match=r"has no 'lr': it has x, rate"):
        one({"x": tune.sample_from(lambda s: s.config.lr), "rate": 1})


def test_conditional_spaces() -> None:
    space = {
        "model": tune.choice(
            [
                {"kind": "svm", "C": tune.loguniform(1e-3, 1), "kernel": tune.choice([{"g": tune.uniform(0, 1)}, "l"])},
                {"kind": "knn", "k": tune.randint(1, 9)},
            ]
        )
    }
    seen = {frozenset(one(space, seed)["model"]) for seed in range(20)}
    assert seen == {frozenset({"kind", "C", "kernel"}), frozenset({"kind", "k"})}
    tagged = [tune.evaluated_parameters(space, one(space, seed)) for seed in range(20)]
    assert {frozenset(t) for t in tagged} == {
        frozenset({"model/kind", "model/C", "model/kernel"}),
        frozenset({"model/kind", "model/C", "model/kernel/g"}),
        frozenset({"model/kind", "model/k"}),
    }


def test_grids_inside_options_and_domains_inside_grids() -> None:
    inside = {"m": tune.choice([{"k": tune.grid_search([1, 2])}])}
    assert [c["m"]["k"] for c in configs(inside)] == [1, 2]
    around = {"m": tune.grid_search([{"x": tune.uniform(0, 1)}, None])}
    first, second = configs(around)
    assert 0 <= first["m"]["x"] <= 1 and second["m"] is None


@pytest.mark.parametrize(
    ("space", "count"),
    [
        ({"a": tune.grid_search([tune.grid_search([1, 2]), 3])}, 3),
        ({"a": tune.grid_search([{"b": tune.grid_search([1, 2]), "c": [tune.grid_search([3, 4, 5])]}, None])}, 7),
        ({"a": tune.grid_search([{"b": tune.grid_search([1, 2])}, 3]), "d": tune.grid_search([4, 5])}, 6),
        ({"a": tune.grid_search([tune.grid_search([tune.grid_search([1, 2]), 3]), 4]), "d": tune.uniform(0, 1)}, 4),
    ],
)
def test_grids_inside_grids_are_counted(space: dict[str, Any], count: int) -> None:
    assert tune.count_variants(space) == count == len(configs(space))
    searcher = BasicVariantGenerator(space=space, num_samples=2)
    assert searcher.total_samples == 2 * count


def test_values_are_kept_as_they_are() -> None:
    pair = namedtuple("pair", "a b")
    thing = object()
    space = {"o": OrderedDict(x=tune.choice([1]), y=thing), "p": pair(tune.choice([2]), 3), "f": len, "e": {}, "l": []}
    config = one(space)
    assert type(config["o"]) is OrderedDict and config["o"]["x"] == 1 and config["o"]["y"] is thing
    assert config["p"] == pair(2, 3) and config["f"] is len and config["e"] == {} and config["e"] is not space["e"]


def test_the_space_is_never_changed() -> None:
    space = {"a": [tune.uniform(0, 1)], "b": {"grid_search": [1, 2]}}
    before = repr(space)
    configs(space)
    assert repr(space) == before


def test_tags() -> None:
    space = {"width": tune.uniform(0, 100), "height": tune.uniform(0, 100), "n": 3}
    evaluated = tune.evaluated_parameters(space, {"width": 37, "height": 40, "n": 3})
    assert evaluated == {"width": 37, "height": 40}
    assert tune.experiment_tag(0, evaluated) == "0_height=40,width=37"
    assert tune.experiment_tag(7, {}) == "7"
    tag = tune.experiment_tag(1, {"a/lr": 1e-5, "b/lr": 0.5, "layers/0": 16, "act": "nn.ReLU()/x y", "f": 0.123456})
    assert tag == "1_a_lr=1e-05,act=nn.ReLU_x_y,b_lr=0.5,f=0.1235,layers_0=16"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (tune.grid_search([tune.uniform(0, 1), tune.choice([{"x": tune.randint(3, 4)}]), 5]), [0.5, {"x": 3}, 5]),
        (tune.choice([tune.choice([tune.uniform(0, 1)])]), [0.5]),
        (tune.sample_from(lambda spec: tune.uniform(0, 1)), [0.5]),
        (tune.grid_search([tune.sample_from(lambda spec: spec.config.other), 5]), [7, 5]),
        (tune.grid_search([tune.grid_search([1, 2]), 3]), [1, 2, 3]),
    ],
)
def test_a_value_may_be_a_domain_itself(value: Any, found: list[Any]) -> None:
    values = [config["value"] for config in configs({"value": value, "other": 7})]
    assert [0.5 if isinstance(each, float) and 0 < each < 1 else each for each in values] == found

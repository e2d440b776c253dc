"""The flat view: points in the unit cube, conditions, and the way to configurations and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_tune import search_space as tune
from kernel_tune.errors import SearchSpaceError
from kernel_tune.search_space.flat import FlatSpace

SPACE: dict[str, Any] = {
    "lr": tune.loguniform(1e-4, 1),
    "layers": [tune.randint(1, 5), (tune.quniform(0, 1, 0.5), "constant")],
    "model": tune.choice(
        [
            {"kind": "svm", "C": tune.loguniform(1e-3, 1), "kernel": tune.choice(["rbf", {"degree": tune.randint(9)}])},
            {"kind": "knn", "k": tune.randint(1, 9)},
            None,
        ]
    ),
    "twice": tune.sample_from(lambda spec: spec.config.lr * 2),
    "noise": tune.randn(0, 1),
}


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def test_parents_come_before_what_depends_on_them() -> None:
    flat = FlatSpace(SPACE)
    assert flat.names == [
        "lr", "layers/0", "layers/1/0", "model", "model/C?0", "model/kernel?0", "model/kernel/degree?1", "model/k?1",
        "noise",
    ]  # fmt: skip
    assert all(p.condition[0] < n for n, p in enumerate(flat.parameters))


def test_points_become_configurations_and_come_back() -> None:
    flat, random = FlatSpace(SPACE), generator()
    kinds = set()
    for _ in range(100):
        point = flat.random(random)
        config = flat.config(point, random)
        kinds.add(repr(sorted(config["model"])) if config["model"] else None)
        assert config["twice"] == config["lr"] * 2 and config["layers"][1][1] == "constant"
        again, exact = flat.point(config, random)
        assert again == pytest.approx(point, nan_ok=True)
        assert flat.config(again, random, exact) == config
    assert len(kinds) == 3


def test_only_active_parameters_have_numbers() -> None:
    flat = FlatSpace(SPACE)
    knn = flat.point({"model": {"kind": "knn", "k": 3}}, generator())[0]
    assert np.isnan(knn).tolist() == [False] * 4 + [True, True, True, False, False]
    nothing = flat.point({"model": None}, generator())[0]
    assert np.isnan(nothing)[4:8].all()


def test_points_may_leave_things_out_and_name_paths() -> None:
    flat = FlatSpace(SPACE)
    point, exact = flat.point({"layers/0": 4, "lr": 0.1, "model/C": 0.5}, generator())
    config = flat.config(point, generator(), exact)
    assert (config["layers"][0], config["lr"], config["model"]["C"]) == (4, 0.1, 0.5)
    assert config["model"]["kind"] == "svm" and "kernel" in config["model"]


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ({"lr": 5}, r"'lr' is 5, which is not in Float"),
        ({"layer": 1}, r"has no 'layer', which a point to evaluate gives: did you mean 'layers'"),
        ({"model": {"kind": "tree"}}, r"'model' is {'kind': 'tree'}, but must be one of the categories"),
        ({"layers/9": 1}, r"has no '9' under 'layers'.*it has 0, 1"),
    ],
)
def test_points_outside_of_the_space_are_refused(point: Any, message: str) -> None:
    with pytest.raises(SearchSpaceError, match=message):
        FlatSpace(SPACE).point(point, generator())


def test_grids_are_refused_by_name_or_taken_as_choices() -> None:
    space = {"a": {"b": tune.grid_search([1, 2])}}
    with pytest.raises(SearchSpaceError, match=r"'a/b' is a grid_search.*use choice there"):
        FlatSpace(space)
    flat = FlatSpace(space, grids_as_choices=True)
    assert flat.config(np.array([0.9]), generator()) == {"a": {"b": 2}}


def test_many_integers_are_continuous_few_are_cells() -> None:
    flat = FlatSpace({"a": tune.randint(10**9), "b": tune.randint(10)})
    assert flat.parameters[0].edges is None and flat.parameters[1].cells == 10
    assert flat.settled(np.array([[0.123, 0.123]]))[0].tolist() == [0.123, pytest.approx(0.15)]


def test_settled_points_lie_in_the_cube() -> None:
    flat = FlatSpace(SPACE)
    points = flat.settled(generator().normal(0, 3, (50, len(flat))))
    assert np.nanmin(points) >= 0 and np.nanmax(points) <= 1


def test_a_space_without_choices() -> None:
    flat = FlatSpace({"a": 1})
    assert len(flat) == 0 and flat.config(flat.random(generator()), generator()) == {"a": 1}

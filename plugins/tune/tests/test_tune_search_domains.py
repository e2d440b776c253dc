"""Domains: what is drawn, what is refused, and the way to the unit interval and back."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_tune import search_space as tune
from kernel_tune.arguments import ArgumentError
from kernel_tune.errors import SearchSpaceError
from kernel_tune.search_space.domains import Domain

DISCRETE = [
    tune.quniform(0, 1, 0.1),
    tune.quniform(-3, 3, 1.5),
    tune.qloguniform(0.1, 10, 0.1),
    tune.randint(7),
    tune.randint(-3, 4),
    tune.lograndint(1, 500),
    tune.qrandint(0, 10, 5),
    tune.qlograndint(10, 1000, 10),
    tune.choice(10),
    tune.choice(["a", None, (1, 2)], p=[0.5, 0.3, 0.2]),
]


@pytest.mark.parametrize("domain", DISCRETE, ids=str)
def test_each_value_has_a_cell_of_the_unit_interval(domain: Domain) -> None:
    cells = domain.cells
    assert cells is not None and domain.edge(0) == 0.0 and domain.edge(cells) == pytest.approx(1.0)
    for cell in range(cells):
        middle = (domain.edge(cell) + domain.edge(cell + 1)) / 2
        value = domain.from_unit(middle)
        assert domain.is_valid(value)
        assert domain.to_unit(value) == pytest.approx(middle)
    assert len({repr(domain.from_unit(u)) for u in np.linspace(0, 1, 20001)}) == cells


def test_a_value_that_is_not_a_category_has_no_place_in_the_unit_interval() -> None:
    with pytest.raises(SearchSpaceError, match=r"^'c' is not one of the categories \['a', 'b'\]$"):
        tune.choice(["a", "b"]).to_unit("c")


@pytest.mark.parametrize(
    "domain", [tune.uniform(-2, 5), tune.loguniform(1e-6, 10), tune.randn(3, 2), tune.uniform(100)], ids=str
)
def test_continuous_values_go_to_the_unit_interval_and_back(domain: Domain) -> None:
    assert domain.cells is None
    for unit in (0.0, 0.001, 0.25, 0.5, 0.999, 1.0):
        value = domain.from_unit(unit)
        assert domain.is_valid(value) and isinstance(value, float)
        assert domain.to_unit(value) == pytest.approx(unit, abs=1e-9)


def quantiles(domain: Domain) -> list[float]:
    return [float(q) for q in np.quantile(domain.sample(size=4001, random_state=0), [0.1, 0.5, 0.9])]


def test_values_are_distributed_as_promised() -> None:
    assert quantiles(tune.uniform(1, 11)) == pytest.approx([2, 6, 10], abs=0.4)
    assert np.log10(quantiles(tune.loguniform(1e-4, 1))) == pytest.approx([-3.6, -2, -0.4], abs=0.15)
    assert quantiles(tune.randn(10, 2)) == pytest.approx([7.44, 10, 12.56], abs=0.25)
    assert quantiles(tune.lograndint(10, 100_000)) == pytest.approx([25, 1000, 39_800], rel=0.2)
    ends = tune.quniform(0, 10, 5).sample(size=3000, random_state=1)
    assert [ends.count(x) / 3000 for x in (0.0, 5.0, 10.0)] == pytest.approx([1 / 3] * 3, abs=0.05)
    weighted = tune.choice(["a", "b"], p=[0.9, 0.1]).sample(size=1000, random_state=1)
    assert weighted.count("a") == pytest.approx(900, abs=40)


def test_bounds_of_integers() -> None:
    assert set(tune.randint(2, 5).sample(size=200, random_state=0)) == {2, 3, 4}
    assert set(tune.qrandint(2, 6, 2).sample(size=200, random_state=0)) == {2, 4, 6}
    assert set(tune.qrandint(2, 5).sample(size=200, random_state=0)) == {2, 3, 4}
    assert set(tune.lograndint(1, 4).sample(size=200, random_state=0)) == {1, 2, 3}


def test_odd_forms_that_numpy_allows() -> None:
    assert tune.uniform(100) == tune.uniform(1, 100)
    assert tune.uniform(-1) == tune.uniform(-1, 1)
    assert tune.randint(10) == tune.randint(0, 10)
    assert tune.choice(3).categories == [0, 1, 2]
    assert tune.loguniform(1e-4, 1e-2, base=2) == tune.loguniform(1e-4, 1e-2)
    several = tune.uniform(2, 3, size=(2, 4)).sample()
    assert several.shape == (2, 4) and ((several >= 2) & (several < 3)).all()
    assert tune.uniform(2, 3, 5).sample().shape == (5,)


@pytest.mark.parametrize(
    ("function", "given", "arguments"),
    [
        (tune.uniform, {"low": 1, "high": 10}, "lower, upper, size"),
        (tune.loguniform, {"min_bound": 1e-4, "max_bound": 1e-2}, "lower, upper, base"),
        (tune.choice, {"a": [3, 4]}, "categories, size, replace, p"),
    ],
)
def test_an_argument_that_is_not_there_is_refused_with_those_that_are(
    function: Callable[..., Any], given: dict[str, Any], arguments: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        function(**given)
    name = f"{function.__name__}() has no argument {next(iter(given))!r}."
    assert str(caught.value).startswith(name) and str(caught.value).endswith(f" Its arguments are {arguments}.")


def test_quantised_floats_are_as_people_write_them() -> None:
    assert [tune.quniform(0, 1, 0.1).from_unit(u) for u in (0.0, 0.3, 0.65, 1.0)] == [0.0, 0.3, 0.7, 1.0]


def test_the_seed_decides_what_is_drawn() -> None:
    assert tune.uniform(0, 1).sample(size=3, random_state=5) == tune.uniform(0, 1).sample(size=3, random_state=5)
    assert tune.uniform(0, 1).sample() != tune.uniform(0, 1).sample()


def test_domains_can_be_changed_and_pickled() -> None:
    assert tune.Float(1, 10).loguniform() == tune.loguniform(1, 10)
    assert tune.Float(1, 10).uniform().quantized(1) == tune.quniform(1, 10, 1)
    assert tune.Integer(1, 10).loguniform().quantized(3).log
    assert tune.Normal(1, 2).quantized(0.5) == tune.qrandn(1, 2, 0.5)
    assert tune.choice([1, 2]).grid() == {"grid_search": [1, 2]}
    domain = tune.qloguniform(1, 8, 1)
    assert pickle.loads(pickle.dumps(domain)).sample(random_state=1) == domain.sample(random_state=1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tune.uniform(2, 1), r"lower bound 2 is not below the upper bound 1: swap them"),
        (lambda: tune.randint(3, 3), r"write the value itself"),
        (lambda: tune.loguniform(0, 1), r"the lower bound is 0: .*must be above 0"),
        (lambda: tune.lograndint(0, 5), r"must be above 0"),
        (lambda: tune.uniform(0, float("inf")), r"upper bound is inf: it must be a finite number"),
        (lambda: tune.uniform("a", 2), r"lower bound is 'a'"),
        (lambda: tune.quniform(0, 1, 0.3), r"upper bound 1.0 is not a multiple of q=0.3"),
        (lambda: tune.quniform(0, 1, -1), r"q is -1: it must be a number above 0"),
        (lambda: tune.qrandint(1, 4, 5), r"no multiple of 5 from 1 to 4"),
        (lambda: tune.qrandint(0, 4, 0.5), r"for integers it must be an integer"),
        (lambda: tune.randint(0.5, 3), r"the bound 0.5 is not an integer: use uniform"),
        (lambda: tune.randn(0, 0), r"standard deviation is 0"),
        (lambda: tune.randn(3, 4.5, 6), r"randn takes whole numbers as lengths, or a mean and a deviation"),
        (lambda: tune.randn(3, size=2), r"randn takes a size, or a mean and a standard deviation: it was given both"),
        (lambda: tune.randn(size=2.5), r"size is 2.5: it is a length, or a tuple of lengths"),
        (lambda: tune.choice([1, 2], size=3, replace=False), r"take 3 different ones of 2 values: ask for fewer, or"),
        (lambda: tune.choice([1, 2], (1, 2), False, [1, 0]), r"take 2 different ones of 1 values"),
        (lambda: tune.uniform(0, 1, size=2.5), r"size is 2.5: it is a length, or a tuple of lengths"),
        (lambda: tune.choice([]), r"nothing to choose from"),
        (lambda: tune.choice(), r"choice takes a list of values, not None"),
        (lambda: tune.choice("abc"), r"choice takes a list of values, not 'abc'"),
        (lambda: tune.choice([1, 2], p=[1, 1]), r"2 probabilities, one for each value, that add up to 1"),
        (lambda: tune.grid_search([]), r"grid_search has no values"),
        (lambda: tune.grid_search(3), r"grid_search takes a list of values, not 3"),
        (lambda: tune.sample_from(3), r"sample_from takes a function, not 3"),
        (lambda: tune.sample_from(lambda a, b: 1), r"with one argument or with none, and takes neither"),
    ],
)
def test_what_is_no_domain_is_refused(make: Any, message: str) -> None:
    with pytest.raises(SearchSpaceError, match=message):
        make()


def test_arrays_and_lists_as_numpy_draws_them() -> None:
    assert tune.randn(5) != tune.Normal(5, 1) and isinstance(tune.randn(5), tune.Function)
    assert tune.randn(5, 2) == tune.Normal(5, 2) and tune.randn(5.0) == tune.Normal(5.0, 1)
    assert tune.randn(0) == tune.randn() == tune.Normal(0, 1) and tune.randn(3, sd=2) == tune.Normal(3, 2)
    shapes = [tune.randn(*shape).sample().shape for shape in ((4,), (2, 3, 4))]
    assert shapes == [(4,), (2, 3, 4)] and tune.randn(size=(2, 3)).sample().shape == (2, 3)
    many = tune.randn(10_000).sample()
    assert (abs(many.mean()), many.std()) == pytest.approx((0, 1), abs=0.05)
    assert sorted(tune.choice(["a", None, (1, 2)], size=3, replace=False).sample(), key=str) == [(1, 2), None, "a"]
    table = tune.choice(10, size=(2, 3)).sample()
    assert [len(row) for row in table] == [3, 3] and all(
        type(cell) is int and cell < 10 for row in table for cell in row
    )
    assert tune.choice(["x", "y"], 4, p=[0, 1]).sample() == ["y"] * 4 and tune.choice([1], size=0).sample() == []
    assert repr(tune.choice(3, size=2)) == "Function('choice(size=2)')"
    assert repr(tune.randn(4)) == "Function('randn(4,)')"


def test_what_is_drawn_at_once_follows_the_seed() -> None:
    space = {"noise": tune.randn(2), "few": tune.choice(100, size=3), "x": tune.uniform(0, 1)}

    def drawn(seed: int) -> list[str]:
        return [str(variant) for _, variant in tune.generate_variants(space, random_state=seed)]

    assert drawn(1) == drawn(1) != drawn(2)


def test_they_are_exported() -> None:
    import kernel_tune

    assert kernel_tune.uniform is tune.uniform and kernel_tune.grid_search is tune.grid_search

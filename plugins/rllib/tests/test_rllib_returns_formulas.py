"""Returns against plain sums over the steps that follow, for any shapes, ends and masks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_rllib import returns
from kernel_rllib.testing.reference import returns as reference

Columns = dict[str, np.ndarray]

unit = st.one_of(st.sampled_from([0.0, 1.0, 0.5, 0.99]), st.floats(0, 1))


@st.composite
def columns(draw: st.DrawFn, masked: bool = False) -> Columns:
    """Draw float64 columns [T, L] with episodes that terminate, are truncated, or both, at any place."""
    shape = draw(st.integers(1, 17)), draw(st.integers(1, 4))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    share = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    made = {name: generator.normal(size=shape) for name in ("log_ratios", "rewards", "values", "next_values")}
    made |= {name: generator.random(shape) < share for name in ("terminateds", "truncateds")}
    if masked:
        made["valid"] = generator.random(shape) < draw(st.sampled_from([0.3, 0.8, 1.0]))
        for name in ("log_ratios", "rewards", "values", "next_values"):
            made[name][~made["valid"]] = np.nan  # what stands in such rows is of no account
    return made


def runs(made: Columns) -> Iterator[tuple[slice, int]]:
    """Yield rows and lane of each run of steps without a gap."""
    valid = made.get("valid", np.ones(made["rewards"].shape, bool))
    length, lanes = valid.shape
    for lane in range(lanes):
        start = 0
        for row in range(length + 1):
            if row == length or not valid[row, lane]:
                if row > start:
                    yield slice(start, row), lane
                start = row + 1


def check(
    made: Columns,
    names: list[str],
    ours: Callable[..., Any],
    plain: Callable[..., Any],
    **options: float,
) -> None:
    """Compare all results of `ours` on whole arrays with those of `plain` on each run of steps."""
    masked = {"valid": made["valid"]} if "valid" in made else {}
    found = ours(*[made[name] for name in names], **options, **masked)
    found = found if isinstance(found, tuple) else (found,)
    expected = [np.zeros(made["rewards"].shape) for _ in found]
    for rows, lane in runs(made):
        results = plain(*[made[name][rows, lane] for name in names], **options)
        for array, result in zip(expected, results if isinstance(results, tuple) else (results,), strict=True):
            array[rows, lane] = result
    for array, result in zip(found, expected, strict=True):
        assert array.dtype == np.float64 and array.shape == result.shape
        np.testing.assert_allclose(array, result, rtol=1e-11, atol=1e-11)


ENDS = ["terminateds", "truncateds"]
both = pytest.mark.parametrize("masked", [False, True])


@both
@given(data=st.data(), gamma=unit, lambda_=unit)
def test_gae_is_the_sum_of_later_errors(masked: bool, data: st.DataObject, gamma: float, lambda_: float) -> None:
    names = ["rewards", "values", "next_values", *ENDS]
    check(data.draw(columns(masked)), names, returns.gae, reference.gae, gamma=gamma, lambda_=lambda_)


@both
@given(data=st.data(), gamma=unit, lambda_=unit)
def test_lambda_returns_are_the_mean_of_n_step_returns(
    masked: bool, data: st.DataObject, gamma: float, lambda_: float
) -> None:
    names = ["rewards", "next_values", *ENDS]
    made = data.draw(columns(masked))
    check(made, names, returns.lambda_returns, reference.lambda_returns, gamma=gamma, lambda_=lambda_)


@both
@given(data=st.data(), gamma=unit, with_values=st.booleans())
def test_returns_to_go_are_sums_of_rewards(masked: bool, data: st.DataObject, gamma: float, with_values: bool) -> None:
    names = ["rewards", *ENDS] + ["next_values"] * with_values

    def ours(*arrays: np.ndarray, **options: Any) -> np.ndarray:
        return returns.returns_to_go(*arrays[:3], next_values=arrays[3] if with_values else None, **options)

    def plain(*arrays: np.ndarray, gamma: float) -> np.ndarray:
        return reference.returns_to_go(*arrays[:3], gamma, *arrays[3:])

    check(data.draw(columns(masked)), names, ours, plain, gamma=gamma)


@both
@given(
    data=st.data(),
    gamma=unit,
    lambda_=unit,
    rho_bar=st.floats(0.1, 3),
    c_bar=st.floats(0.1, 3),
    policy_rho_bar=st.floats(0.1, 3),
)
def test_vtrace_is_the_sum_of_weighed_errors(masked: bool, data: st.DataObject, **options: float) -> None:
    names = ["log_ratios", "rewards", "values", "next_values", *ENDS]
    check(data.draw(columns(masked)), names, returns.vtrace, reference.vtrace, **options)


@both
@given(data=st.data(), gamma=unit, lambda_=unit)
def test_retrace_is_the_sum_of_weighed_errors(masked: bool, data: st.DataObject, gamma: float, lambda_: float) -> None:
    names = ["log_ratios", "rewards", "values", "next_values", *ENDS]
    check(data.draw(columns(masked)), names, returns.retrace, reference.retrace, gamma=gamma, lambda_=lambda_)


@both
@given(data=st.data(), gamma=unit, n=st.integers(1, 20))
def test_n_step_returns_stop_where_episodes_and_rows_end(
    masked: bool, data: st.DataObject, gamma: float, n: int
) -> None:
    made = data.draw(columns(masked))
    rows = np.arange(len(made["rewards"]))[:, None]
    found = returns.n_step(
        made["rewards"], made["terminateds"], made["truncateds"], n=n, gamma=gamma, valid=made.get("valid")
    )
    expected = [np.zeros(made["rewards"].shape), np.zeros(made["rewards"].shape), rows + 0 * found.last]
    for run, lane in runs(made):
        plain = reference.n_step(*[made[name][run, lane] for name in ("rewards", *ENDS)], n=n, gamma=gamma)
        for array, result in zip(expected, plain, strict=True):
            array[run, lane] = result + (run.start if array is expected[2] else 0)
    for array, result in zip(found, expected, strict=True):
        np.testing.assert_allclose(array, result, rtol=1e-11, atol=1e-11)
    assert np.array_equal(found.steps, found.last - rows + 1)


@both
@given(data=st.data(), gamma=unit, seed=st.integers(0, 99))
def test_each_row_may_count_as_many_rewards_as_it_says(
    masked: bool, data: st.DataObject, gamma: float, seed: int
) -> None:
    made = data.draw(columns(masked))
    counts = np.random.default_rng(seed).integers(1, 6, made["rewards"].shape)
    arguments = made["rewards"], made["terminateds"], made["truncateds"]
    found = returns.n_step(*arguments, n=counts, gamma=gamma, valid=made.get("valid"))
    for n in range(1, 6):
        plain = returns.n_step(*arguments, n=n, gamma=gamma, valid=made.get("valid"))
        for array, expected in zip(found, plain, strict=True):
            np.testing.assert_array_equal(array[counts == n], expected[counts == n])


@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(0, 5),
    atoms=st.integers(2, 9),
    low=st.floats(-20, 0),
    width=st.floats(0.5, 40),
)
def test_projection_is_that_of_the_paper(seed: int, rows: int, atoms: int, low: float, width: float) -> None:
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.ones(atoms), rows).reshape(rows, atoms)
    rewards = generator.normal(scale=width, size=rows)
    discounts = generator.choice([0.0, 0.9, 1.0], rows)
    bounds = {"v_min": low, "v_max": low + width}
    found = returns.project_categorical(probabilities, rewards, discounts, **bounds)
    assert found.shape == (rows, atoms) and found.dtype == np.float64
    plain = reference.project_categorical(probabilities, rewards, discounts, **bounds)
    np.testing.assert_allclose(found, plain, atol=1e-10)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-12)

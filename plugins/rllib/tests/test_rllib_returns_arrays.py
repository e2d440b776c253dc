"""What arrays the returns take: dtypes, shapes, lanes beside each other, masks, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_rllib.errors import DataError
from kernel_rllib.returns import (
    categorical_support,
    gae,
    lambda_returns,
    n_step,
    project_categorical,
    quantile_midpoints,
    quantile_targets,
    retrace,
    returns_to_go,
    valid_rows,
    vtrace,
)


def columns(length: int, lanes: int, dtype: Any = np.float32) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(7)
    made = {
        name: generator.normal(size=(length, lanes)).astype(dtype)
        for name in ("log_ratios", "rewards", "values", "next_values")
    }
    return made | {name: generator.random((length, lanes)) < 0.1 for name in ("terminateds", "truncateds")}


def all_returns(made: dict[str, np.ndarray], **options: Any) -> list[np.ndarray]:
    rewards, values, next_values = made["rewards"], made["values"], made["next_values"]
    ends = made["terminateds"], made["truncateds"]
    return [
        *gae(rewards, values, next_values, *ends, gamma=0.9, lambda_=0.8, **options),
        lambda_returns(rewards, next_values, *ends, gamma=0.9, lambda_=0.8, **options),
        returns_to_go(rewards, *ends, gamma=0.9, **options),
        *vtrace(made["log_ratios"], rewards, values, next_values, *ends, gamma=0.9, **options),
        retrace(made["log_ratios"], rewards, values, next_values, *ends, gamma=0.9, **options),
        *n_step(rewards, *ends, n=3, gamma=0.9, **options)[:2],
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_given_is_the_dtype_computed_in(dtype: type) -> None:
    made = columns(33, 5, dtype)
    exact = all_returns(columns(33, 5) if dtype == np.float64 else {k: v.astype(float) for k, v in made.items()})
    for found, expected in zip(all_returns(made), exact, strict=True):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


def test_integers_and_lists_count_as_float32() -> None:
    advantages, targets = gae([1, 2], [0, 0], [0, 0], [False, True], [False, False], gamma=1, lambda_=1)
    assert advantages.dtype == np.float32 and targets.tolist() == [3, 2]


def test_a_numpy_number_for_gamma_does_not_widen_the_result() -> None:
    made = columns(4, 2)
    names = "rewards", "values", "next_values", "terminateds", "truncateds"
    found = gae(*[made[name] for name in names], gamma=np.float64(0.9), lambda_=np.float64(0.9))
    assert [array.dtype for array in found] == [np.float32, np.float32]


@pytest.mark.parametrize("length", [1, 2, 3, 31, 32, 33, 100])
def test_a_lane_has_the_same_bits_whatever_lanes_stand_beside_it(length: int) -> None:
    made = columns(length, 9)
    together = all_returns(made)
    for lanes in (slice(0, 1), slice(2, 5), slice(8, 9)):
        alone = all_returns({name: np.ascontiguousarray(array[:, lanes]) for name, array in made.items()})
        for whole, part in zip(together, alone, strict=True):
            assert whole[:, lanes].tobytes() == part.tobytes()


def test_one_lane_may_come_without_its_axis() -> None:
    made = columns(20, 1)
    for whole, flat in zip(all_returns(made), all_returns({k: v[:, 0] for k, v in made.items()}), strict=True):
        assert np.array_equal(whole[:, 0], flat)


def test_no_rows_give_no_returns() -> None:
    for found in all_returns({name: array[:0] for name, array in columns(3, 2).items()}):
        assert found.shape == (0, 2)


def test_what_is_given_is_not_written_to() -> None:
    made = columns(9, 2)
    for array in made.values():
        array.setflags(write=False)
    for found in all_returns(made):
        assert found.flags.writeable and not any(np.shares_memory(found, array) for array in made.values())


def test_padding_changes_nothing_and_may_hold_anything() -> None:
    made = columns(6, 3)
    lengths = [6, 2, 0]
    padded = {name: array.copy() for name, array in made.items()}
    valid = valid_rows(lengths, 6)
    for name in ("log_ratios", "rewards", "values", "next_values"):
        padded[name][~valid] = np.inf
    found = all_returns(padded, valid=valid)
    for lane, length in enumerate(lengths):
        alone = all_returns({name: array[:length, lane] for name, array in made.items()})
        for whole, part in zip(found, alone, strict=True):
            np.testing.assert_allclose(whole[:length, lane], part, rtol=1e-6)
            assert not whole[length:, lane].any()


def test_terminated_wins_over_truncated() -> None:
    made = columns(8, 2)
    made["truncateds"] = made["truncateds"] | made["terminateds"]
    changed = dict(made, truncateds=made["truncateds"] & ~made["terminateds"])
    for found, expected in zip(all_returns(made), all_returns(changed), strict=True):
        assert np.array_equal(found, expected)


def test_vtrace_of_the_policy_that_acted_is_td_lambda() -> None:
    made = columns(40, 3, np.float64)
    going_on = ~(made["terminateds"] | made["truncateds"])[:-1]
    np.copyto(made["next_values"][:-1], made["values"][1:], where=going_on)  # the same observation, the same value
    arguments = made["rewards"], made["next_values"], made["terminateds"], made["truncateds"]
    traced = vtrace(np.zeros((40, 3)), made["rewards"], made["values"], *arguments[1:], gamma=0.9, lambda_=0.7)
    np.testing.assert_allclose(traced.value_targets, lambda_returns(*arguments, gamma=0.9, lambda_=0.7), rtol=1e-12)


def test_vtrace_stays_finite_for_actions_that_one_policy_never_takes() -> None:
    ratios = np.array([-np.inf, 500.0, -500.0, 0.0], np.float32)
    ones, flags = np.ones(4, np.float32), np.zeros(4, bool)
    for bar in (1.0, 1e6):
        traced = vtrace(ratios, ones, ones, ones, flags, flags, gamma=0.9, rho_bar=bar, policy_rho_bar=bar)
        assert np.isfinite(traced.value_targets).all() and np.isfinite(traced.advantages).all()
        assert traced.advantages[0] == 0 and traced.value_targets[0] == 1


def test_a_projection_keeps_the_mean_inside_the_range_and_all_mass_at_its_ends() -> None:
    support = categorical_support(-10, 10, 51)
    assert support[0] == -10 and support[-1] == 10 and len(support) == 51
    generator = np.random.default_rng(3)
    probabilities = generator.dirichlet(np.ones(51), 32).astype(np.float32)
    rewards, discounts = generator.normal(size=32).astype(np.float32), np.full(32, 0.5, np.float32)
    found = project_categorical(probabilities, rewards, discounts, v_min=-10, v_max=10)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found @ support, rewards + 0.5 * probabilities @ support, atol=2e-5)
    beyond = project_categorical(probabilities[:2], [1e6, -1e6], [1, 1], v_min=-10, v_max=10)
    assert beyond[0, -1] == pytest.approx(1) and beyond[1, 0] == pytest.approx(1)
    ended = project_categorical(probabilities[:1], [0.4], [0.0], v_min=-10, v_max=10)
    assert ended[0, 26] == pytest.approx(1)  # 0.4 is an atom: nothing is lost where both neighbours are one


def test_quantiles() -> None:
    assert quantile_midpoints(4).tolist() == [0.125, 0.375, 0.625, 0.875]
    found = quantile_targets([[1, 2], [3, 4]], [10, 20], [0.5, 0.0])
    assert found.tolist() == [[10.5, 11], [20, 20]] and found.dtype == np.float32


def bad(**changes: Any) -> Any:
    made = columns(3, 2) | changes
    names = "rewards", "values", "next_values", "terminateds", "truncateds"
    return gae(*[made[name] for name in names], gamma=0.9, lambda_=0.9, valid=changes.get("valid"))


MISTAKES = {
    "values of another shape": (
        lambda: bad(values=np.zeros((4, 2))),
        "values has the shape [4, 2] and rewards has [3, 2]: give arrays of one shape, [time, lane] or [time], with a "
        "row for each step",
    ),
    "flags of another shape": (
        lambda: bad(truncateds=np.zeros(3)),
        "truncateds has the shape [3] and rewards has [3, 2]: give arrays of one shape, [time, lane] or [time], with a "
        "row for each step",
    ),
    "a mask of another shape": (
        lambda: bad(valid=np.zeros((2, 3))),
        "valid has the shape [2, 3] and rewards has [3, 2]: give arrays of one shape, [time, lane] or [time], with a "
        "row for each step",
    ),
    "a number": (
        lambda: lambda_returns(1.0, 1.0, 0, 0, gamma=1, lambda_=1),
        "rewards is a single number: one array [time, lane] or [time] was expected",
    ),
    "no steps": (
        lambda: n_step([1.0], [0], [0], n=0, gamma=1),
        "n is 0: give the number of rewards to count, 1 or more",
    ),
    "no steps in one row": (
        lambda: n_step([1.0, 1.0], [0, 0], [0, 0], n=np.array([1, 0]), gamma=1),
        "n is [1 0]: give the number of rewards to count, 1 or more",
    ),
    "numbers of steps of another shape": (
        lambda: n_step([1.0, 1.0], [0, 0], [0, 0], n=np.array([1]), gamma=1),
        "n has the shape [1], and rewards [2]: give one for each of them",
    ),
    "lengths that are too long": (
        lambda: valid_rows([2, 4], 3),
        "lengths are 2 to 4, but a lane has 3 rows: give 0 to 3",
    ),
    "one atom": (
        lambda: categorical_support(0, 1, 1),
        "1 atoms from v_min=0 to v_max=1: give two atoms or more, and a v_min below v_max",
    ),
    "bounds the wrong way round": (
        lambda: project_categorical([[0.5, 0.5]], [0], [1], v_min=1, v_max=-1),
        "2 atoms from v_min=1 to v_max=-1: give two atoms or more, and a v_min below v_max",
    ),
    "probabilities of one row without its axis": (
        lambda: project_categorical([0.5, 0.5], [0], [1], v_min=0, v_max=1),
        "probabilities have the shape [2]: [row, atom] was expected",
    ),
    "too few rewards": (
        lambda: project_categorical([[0.5, 0.5]] * 2, [0], [1, 1], v_min=0, v_max=1),
        "rewards has the shape [1]: one number for each of the 2 rows expected",
    ),
    "too few discounts": (
        lambda: quantile_targets([[1.0], [2.0]], [1, 2], [1]),
        "quantiles have the shape [2, 1], rewards [2] and discounts [1]: [row, quantile], [row] and [row] were "
        "expected",
    ),
    "no quantiles": (lambda: quantile_midpoints(0), "0 quantiles: give 1 or more"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes_are_named(what: str) -> None:
    call, message = MISTAKES[what]
    with pytest.raises(DataError) as caught:
        call()
    assert str(caught.value) == message and isinstance(caught.value, ValueError)

"""Philox streams, initializers and schedules."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_rllib.errors import ConfigError
from kernel_rllib.nn import initializers
from kernel_rllib.nn.initializers import fans, initializer
from kernel_rllib.nn.philox import _words, normals, stream, uniforms
from kernel_rllib.nn.schedules import ConstantSchedule, schedule

# -- Philox --------------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 40), st.lists(st.integers(0, 13), min_size=1, max_size=6), st.integers(1, 11), st.booleans())
def test_noise_is_the_same_however_a_range_is_cut(start: int, cuts: list[int], width: int, normal: bool) -> None:
    draw = normals if normal else uniforms
    whole = draw(3, 7, "actions", 0, start + sum(cuts), width)
    parts, at = [], start
    for count in cuts:
        parts.append(draw(3, 7, "actions", at, count, width))
        at += count
    joined = np.concatenate(parts)
    assert joined.dtype == np.float32 and joined.shape == (sum(cuts), width)
    np.testing.assert_array_equal(joined, whole[start:])


def test_long_ranges_and_single_rows_are_the_same_bits() -> None:
    for draw in (uniforms, normals):
        whole = draw(0, 0, "noise", 0, 4_000, 3)
        rows = np.concatenate([draw(0, 0, "noise", k, 1, 3) for k in range(0, 4_000, 37)])
        np.testing.assert_array_equal(rows, whole[::37])


def test_noise_differs_by_seed_lane_purpose_width_and_kind() -> None:
    drawn = [uniforms(*key, 0, 4, 2) for key in ((0, 0, "a"), (1, 0, "a"), (0, 1, "a"), (0, 0, "b"), (0, 0, 0))]
    drawn += [uniforms(0, 0, "a", 0, 2, 4).reshape(4, 2), normals(0, 0, "a", 0, 4, 2)]
    assert len({noise.tobytes() for noise in drawn}) == len(drawn)


def test_uniforms_are_uniform() -> None:
    noise = uniforms(1, 2, "x", 0, 50_000, 4)
    assert noise.min() >= 0 and noise.max() < 1
    np.testing.assert_allclose(noise.mean(axis=0), 0.5, atol=0.006)
    np.testing.assert_allclose(np.histogram(noise, 10, (0, 1))[0] / noise.size, 0.1, atol=0.004)
    np.testing.assert_allclose(np.corrcoef(noise.T), np.eye(4), atol=0.02)


def test_normals_are_normal() -> None:
    from scipy import stats

    noise = normals(1, 2, "x", 0, 50_000, 4)
    assert np.isfinite(noise).all()
    np.testing.assert_allclose(np.cov(noise.T), np.eye(4), atol=0.03)
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-3
    np.testing.assert_allclose(np.corrcoef(noise[:-1, 0], noise[1:, 1]), np.eye(2), atol=0.02)


PINNED = (629970388728789509, [[0.6107036471366882, 0.26472264528274536]], [[-1.1383, -0.4714]])
"""Written down, so that no version of numpy or of this library changes them unnoticed."""


def test_streams_are_the_same_for_ever() -> None:
    rounded = [[round(number, 4) for number in row] for row in normals(5, 1, "a", 3, 1, 2).tolist()]
    assert (stream(5, "learner", 0).integers(1 << 60), uniforms(5, 1, "a", 3, 1, 2).tolist(), rounded) == PINNED


def test_streams_are_the_same_in_every_process() -> None:
    program = "from kernel_rllib.nn.philox import *; print(stream(5, 'learner', 0).integers(1 << 60))"
    for seed in ("1", "2"):
        found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                               env={**os.environ, "PYTHONHASHSEED": seed})  # fmt: skip
        assert int(found.stdout) == PINNED[0]


def test_normals_are_made_of_two_uniforms_each() -> None:
    words = _words(3, 1, "x", 2, "normal", 0, 20).astype(np.float64).reshape(-1, 2)
    radius, angle = np.sqrt(-2 * np.log((words[:, 0] + 1) / 2**32)), 2 * np.pi * words[:, 1] / 2**32
    expected = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
    np.testing.assert_allclose(normals(3, 1, "x", 0, 10, 2), expected, rtol=1e-6, atol=1e-7)


def test_purposes_are_kept_apart() -> None:
    purposes: list[tuple[Any, ...]] = [(), ("a",), ("a", "b"), ("ab",), ("a b",), (1,), ("1",), (1, 2), (12,), ("1 2",)]
    assert len({int(stream(0, *purpose).integers(1 << 62)) for purpose in purposes}) == len(purposes)
    assert stream(0, "a").random() == stream(0, "a").random() != stream(1, "a").random()
    assert stream(np.int64(3), "a").random() == stream(3, "a").random()


# -- initializers --------------------------------------------------------------------------------------------------


def draw(name: str, shape: tuple[int, ...], **arguments: Any) -> np.ndarray:
    numbers = initializer(name, **arguments)(shape, np.random.default_rng(0))
    assert numbers.dtype == np.float32 and numbers.shape == shape
    return numbers


def test_numbers_have_the_spread_that_their_names_promise() -> None:
    shape = (300, 200)
    assert not draw("zeros", shape).any() and (draw("constant", shape, value=0.5) == 0.5).all()
    for name, arguments, limit in (
        ("uniform", {"low": -0.3, "high": 0.3}, 0.3), ("glorot_uniform", {}, np.sqrt(6 / 500)),
        ("glorot_uniform", {"gain": 2.0}, 2 * np.sqrt(6 / 500)), ("xavier_uniform", {}, np.sqrt(6 / 500)),
        ("he_uniform", {}, np.sqrt(6 / 300)), ("kaiming_uniform", {"gain": 1.0}, np.sqrt(3 / 300)),
        ("torch_linear", {}, 1 / np.sqrt(300)), ("torch_linear", {"inputs": 25}, 0.2),
    ):  # fmt: skip
        numbers = draw(name, shape, **arguments)
        assert 0.99 * limit < np.abs(numbers).max() <= limit * (1 + 1e-6)
        np.testing.assert_allclose(numbers.std(), limit / np.sqrt(3), rtol=0.02)
        assert abs(numbers.mean()) < 0.02 * limit
    np.testing.assert_allclose(draw("normal", shape, deviation=0.5, mean=1).std(), 0.5, rtol=0.02)
    np.testing.assert_allclose(draw("normal", shape, deviation=0.5, mean=1).mean(), 1, rtol=0.02)
    cut = draw("truncated_normal", shape, deviation=0.5, limit=1.5)
    assert 0.74 < np.abs(cut).max() <= 0.75
    np.testing.assert_allclose(np.linalg.norm(draw("normc", shape, deviation=0.01), axis=0), 0.01, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(draw("normc", (7,))), 1, rtol=1e-5)


@pytest.mark.parametrize("shape", [(64, 64), (4, 64), (64, 2), (3, 3, 4, 8), (20000, 8)])
def test_orthogonal_numbers_are_orthogonal(shape: tuple[int, ...]) -> None:
    matrix = draw("orthogonal", shape, gain=2.0).reshape(-1, shape[-1]).astype(np.float64)
    small = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-5)


def test_an_ensemble_of_orthogonal_matrices() -> None:
    for matrix in draw("orthogonal", (3, 8, 5)).astype(np.float64):
        np.testing.assert_allclose(matrix.T @ matrix, np.eye(5), atol=1e-6)


def test_fans() -> None:
    assert fans((4, 3)) == (4, 3) and fans((2, 4, 3)) == (4, 3) and fans((3, 3, 4, 8)) == (36, 72)
    assert fans((5,)) == (5, 5) and fans(()) == (1, 1)


def test_initializers_refuse_what_they_do_not_know() -> None:
    with pytest.raises(ConfigError, match="no initializer 'magic': take one of zeros, constant"):
        initializer("magic")
    with pytest.raises(ConfigError, match=r"'orthogonal' was given \{'size': 3\}"):
        initializer("orthogonal", size=3)
    assert callable(initializers.zeros())


# -- schedules -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (0.5, {0: 0.5, 1e9: 0.5}),
        (3, {0: 3.0}),
        (np.float32(0.5), {7: 0.5}),
        ([[0, 1.0], [100, 0.0]], {-5: 1.0, 0: 1.0, 25: 0.75, 100: 0.0, 1000: 0.0}),
        ([(10, 1), (20, 3), (30, 2)], {0: 1.0, 15: 2.0, 20: 3.0, 25: 2.5, 31: 2.0}),
        ([[5, 0.3]], {0: 0.3, 5: 0.3, 9: 0.3}),
        ({"type": "constant", "value": 2}, {4: 2.0}),
        ({"type": "ConstantSchedule", "value": 2, "framework": "torch"}, {4: 2.0}),
        ({"type": "PiecewiseSchedule", "endpoints": [[0, 1], [10, 2]], "outside_value": 7},
         {-1: 7.0, 0: 1.0, 5: 1.5, 10: 2.0, 11: 7.0}),
        ({"type": "piecewise", "endpoints": [[0, 1], [10, 2]], "outside_value": None}, {-1: 1.0, 11: 2.0}),
        ({"type": "linear", "schedule_timesteps": 100, "final_p": 0.1}, {0: 1.0, 50: 0.55, 100: 0.1, 200: 0.1}),
        ({"type": "LinearSchedule", "schedule_timesteps": 10, "final_p": 0, "initial_p": 4}, {5: 2.0}),
        ({"type": "polynomial", "schedule_timesteps": 10, "final_p": 1.0, "initial_p": 2.0}, {5: 1.25, 10: 1.0}),
        ({"type": "polynomial", "schedule_timesteps": 10, "final_p": 0.0, "power": 3.0}, {-1: 1.0, 5: 0.125}),
        ({"type": "exponential", "schedule_timesteps": 10}, {0: 1.0, 10: 0.1, 20: 0.01}),
        ({"type": "ray.rllib.utils.schedules.ExponentialSchedule", "schedule_timesteps": 10, "initial_p": 2.0,
          "decay_rate": 0.5}, {0: 2.0, 5: 2 * 0.5**0.5, 10: 1.0}),
        (ConstantSchedule(4), {0: 4.0}),
    ],
)  # fmt: skip
def test_values_of_schedules(given: Any, expected: dict[float, float]) -> None:
    one = schedule(given, "lr")
    for t, value in expected.items():
        assert one.value(t) == pytest.approx(value, rel=1e-12)
        assert type(one.value(t)) is float


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("fast", r"lr is 'fast': give a number, pairs of a step and a value"),
        (None, r"lr is None: give a number"),
        (True, r"lr is True: give a number"),
        (float("nan"), r"lr is nan: give a number"),
        ([], r"lr has the endpoints \[\]: give pairs"),
        ([0.1, 0.2], r"lr has 0\.1 where a pair of a step and a value is expected"),
        ([[0, 1, 2]], r"lr has \[0, 1, 2\] where a pair"),
        ([[0, "a"]], r"lr has the pair \[0, 'a'\]: both must be numbers"),
        ([[10, 1.0], [10, 0.5]], r"lr has step 10 after step 10\.0: the steps must rise"),
        ({"type": "cosine"}, r"lr has the type 'cosine': take one of constant, piecewise, linear"),
        ({}, r"lr has the type '': take one of"),
        ({"type": "linear", "final_p": 0}, r"lr is a linear schedule without 'schedule_timesteps'"),
        ({"type": "linear", "schedule_timesteps": 5, "final_p": 0, "power": 2},
         r"lr is a linear schedule and has 'power': it takes schedule_timesteps, final_p, initial_p"),
        ({"type": "linear", "schedule_timesteps": "5", "final_p": 0}, r"lr has '5' for 'schedule_timesteps': give a"),
        ({"type": "linear", "schedule_timesteps": 0, "final_p": 0}, r"lr has 0 for 'schedule_timesteps': give more"),
        ({"type": "piecewise", "endpoints": 3}, r"lr has the endpoints 3: give pairs"),
    ],
)  # fmt: skip
def test_wrong_schedules_name_the_field(given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        schedule(given, "lr")

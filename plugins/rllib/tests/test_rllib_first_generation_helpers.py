"""Helpers of the first generation: functions of layers in numpy, lists out of anything, comparisons."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from kernel_rllib.first_generation.helpers import add_mixins, check, check_framework, force_list, force_tuple
from kernel_rllib.first_generation.numpy_functions import fc, lstm, one_hot, relu, sigmoid, softmax
from kernel_rllib.testing.summing_policy import workers_of


def test_functions_of_layers() -> None:
    np.testing.assert_allclose(sigmoid([0.0, np.log(3.0)]), [0.5, 0.75])
    assert sigmoid(0.25, derivative=True) == 0.1875
    np.testing.assert_allclose(softmax([[0.0, np.log(3.0)]]), [[0.25, 0.75]])
    np.testing.assert_allclose(softmax([[0.0], [np.log(3.0)]], axis=0), [[0.25], [0.75]])
    assert relu([-2.0, 3.0]).tolist() == [0.0, 3.0] and relu([-2.0, 3.0], alpha=0.5).tolist() == [-1.0, 3.0]
    assert one_hot([0, 2]).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert one_hot([[1]], depth=2, on_value=5, off_value=-1).tolist() == [[[-1, 5]]]
    weights = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert fc([[1.0, 1.0]], weights).tolist() == [[5, 7, 9]]
    assert fc([[1.0, 1.0]], weights.T, [1, 1, 1], framework="torch").tolist() == [[6, 8, 10]]


def test_an_lstm_gives_what_its_equations_say() -> None:
    stream = np.random.default_rng(0)
    x, weights, biases = stream.normal(size=(2, 3, 4)), stream.normal(size=(4 + 1, 4)), stream.normal(size=4)
    out, (c, h) = lstm(x, weights, biases)
    by_hand, memory = np.zeros(2), np.zeros(2)
    for step in range(3):
        i, j, f, o = (np.column_stack([x[:, step], by_hand]) @ weights + biases).T
        memory = memory / (1 + np.exp(-f - 1.0)) + np.tanh(j) / (1 + np.exp(-i))
        by_hand = np.tanh(memory) / (1 + np.exp(-o))
        np.testing.assert_allclose(out[:, step, 0], by_hand)
    np.testing.assert_allclose(c[:, 0], memory)
    other, (_, last) = lstm(np.swapaxes(x, 0, 1), weights, biases, time_major=True)
    np.testing.assert_allclose(np.swapaxes(other, 0, 1), out)
    half, states = lstm(x[:, :1], weights, biases)
    rest, _ = lstm(x[:, 1:], weights, biases, initial_internal_states=states)
    np.testing.assert_allclose(np.concatenate([half, rest], axis=1), out)
    assert (last == h).all() and (lstm(x, weights)[0] != out).any()
    assert (lstm(x, weights, biases, forget_bias=0.0)[0][:, 1:] != out[:, 1:]).all()


def test_lists_are_made_of_anything() -> None:
    assert [force_list(), force_list(1), force_list((1, 2)), force_list("ab")] == [[], [1], [1, 2], ["ab"]]
    assert [force_tuple(), force_tuple([1]), force_list(1, to_tuple=True)] == [(), (1,), (1,)]


def test_the_first_mixin_is_asked_first() -> None:
    class Base:
        def said(self) -> list[str]:
            return ["base"]

    class One:
        def said(self) -> list[str]:
            return ["one", *super().said()]  # type: ignore[misc]

    class Two:
        def said(self) -> list[str]:
            return ["two", *super().said()]  # type: ignore[misc]

    made: Any = add_mixins(Base, [One, Two])
    assert made().said() == ["one", "two", "base"] and made.__name__ == "Base"
    assert add_mixins(Base, None) is Base


def test_policies_are_told_of_numbers_that_all_share() -> None:
    worker = workers_of(0).local_worker()
    worker.set_weights({}, {"timestep": 7})
    assert worker.get_policy().global_timestep == 7


ALIKE = {"a": [1.0, (np.ones(2), None)], "b": "text"}
UNLIKE: list[Any] = [{"a": [1.0, (np.ones(2), None)]}, {**ALIKE, "b": "other"}, {**ALIKE, "a": [1.0]}, 3]


def test_structures_are_compared() -> None:
    check(ALIKE, {"a": (1.0000001, [np.ones(2), None]), "b": "text"})
    check(1.0, 1.01, atol=0.02)
    check(1.0, 1.01, rtol=0.02)
    check(1.0, 1.01, decimals=1)
    with pytest.raises(AssertionError):
        check(1.0, 1.01, atol=0.005)
    with pytest.raises(AssertionError, match="were to differ"):
        check(ALIKE, ALIKE, false=True)


@pytest.mark.parametrize("other", UNLIKE)
def test_what_differs_anywhere_differs(other: Any) -> None:
    check(ALIKE, other, false=True)
    with pytest.raises(AssertionError):
        check(ALIKE, other)


def test_a_framework_is_one_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_framework(None) is None
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="torch"):
        check_framework("torch")
    with pytest.raises(ValueError, match="framework is 'jax', but must be 'tf', 'torch' or None"):
        check_framework("jax")

"""Networks side by side: the same bits in one thread and in two, errors of either thread, calls that are taken back."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_rllib import PPO, SAC
from kernel_rllib.errors import ModuleError
from kernel_rllib.nn import threads
from kernel_rllib.nn.blas import blas_threads
from kernel_rllib.nn.numpy_backend import NumpyBackend
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.nn.ops import Ops
from kernel_rllib.nn.parameters import ParameterTable
from kernel_rllib.testing.gradients import check_gradient

SECOND = "learner's second thread"
X = np.random.default_rng(0).normal(size=(6, 3))
TABLE = ParameterTable(
    {"body/0": (3, 3), "one/0": (3, 40), "one/1": (40, 2), "other/0": (3, 40), "other/1": (40, 2), "noise": (3, 40)}
)
VECTOR = np.random.default_rng(1).normal(size=TABLE.size)

ALONE = {"num_env_runners": 0, "min_time_s_per_iteration": 0, "min_sample_timesteps_per_iteration": 0, "seed": 3}
SETTINGS: dict[Any, dict[str, Any]] = {
    PPO: {**ALONE, "env": "CartPole-v1", "train_batch_size": 64, "minibatch_size": 32, "num_epochs": 2},
    SAC: {
        **ALONE, "env": "Pendulum-v1", "rollout_fragment_length": 16, "train_batch_size": 8, "training_intensity": 4,
        "num_steps_sampled_before_learning_starts": 8,
    },
}  # fmt: skip


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all calls be worth a thread, on any machine."""
    monkeypatch.setattr(threads, "WORTHWHILE", 0)
    monkeypatch.setattr(threads, "_processors", lambda: 2)


def network(nn: Ops, params: Any, x: Any) -> Any:
    first, second = params.values()
    return nn.linear(nn.linear(x, first * 1.0, None, "tanh"), second)


def loss(nn: Ops, params: Any) -> tuple[Any, dict[str, Any]]:
    """Networks side by side, twice, of an input with a gradient, with parameters that are used elsewhere as well."""
    x = nn.linear(nn.constant(X), params["body/0"], None, "tanh")
    one, other = nn.side_by_side({"one": network, "other": network}, params, x)
    again, _ = nn.side_by_side({"other": network, "one": network}, params, nn.concat([one, one[:, :1]]))
    total = nn.mean(nn.minimum(one, other)) + nn.mean(nn.square(again)) + nn.sum(nn.square(params["one/0"]))
    return total + nn.mean(params["noise"] * params["other/0"]), {"one": one}


def gradients(count: int = 1) -> list[bytes]:
    backend, vector = NumpyBackend(), VECTOR.astype(np.float32)
    with blas_threads(1):
        return [backend.gradient(loss, vector, TABLE)[1].tobytes() for _ in range(count)]


def test_gradients_have_the_same_bits_in_one_thread_and_in_two(monkeypatch: pytest.MonkeyPatch) -> None:
    (alone,) = gradients()
    monkeypatch.setattr(threads, "WORTHWHILE", 0)
    monkeypatch.setattr(threads, "_processors", lambda: 2)
    assert set(gradients(50)) == {alone}
    assert SECOND in [thread.name for thread in threading.enumerate()]


@pytest.mark.usefixtures("two_threads")
def test_in_two_threads_a_gradient_is_that_of_finite_differences() -> None:
    with blas_threads(1):
        check_gradient(loss, TABLE.views(VECTOR), tolerance=1e-6)


@pytest.mark.usefixtures("two_threads")
def test_what_fails_in_a_network_is_raised_and_the_next_gradient_is_right() -> None:
    def failing(nn: Ops, params: Any, x: Any) -> Any:
        raise KeyError("of my own")

    def bad_loss(nn: Ops, params: Any) -> Any:
        return nn.sum(nn.side_by_side({"one": network, "other": failing}, params, X)[0]), {}

    backend = NumpyBackend()
    with blas_threads(1):
        wanted = backend.gradient(loss, VECTOR, TABLE)[1].tobytes()
        with pytest.raises(KeyError, match="of my own"):
            backend.gradient(bad_loss, VECTOR, TABLE)
        assert backend.gradient(loss, VECTOR, TABLE)[1].tobytes() == wanted


@pytest.mark.parametrize("algorithm", [PPO, SAC])
def test_algorithms_learn_the_same_bits_in_one_thread_and_in_two(
    algorithm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def learned() -> bytes:
        made = algorithm(SETTINGS[algorithm])
        made.train()
        assert made.learner.version
        return bytes(made.learner.weights.tobytes())

    alone = learned()
    monkeypatch.setattr(threads, "WORTHWHILE", 0)
    monkeypatch.setattr(threads, "_processors", lambda: 2)
    assert learned() == alone


def both(first: Callable[[], object], second: Callable[[], object]) -> None:
    with blas_threads(1):
        threads.call_all([first, second], threads.WORTHWHILE)


@pytest.mark.usefixtures("two_threads")
def test_calls_run_at_the_same_time_with_the_settings_of_the_caller() -> None:
    met, found = threading.Barrier(2), []

    def meet() -> None:
        met.wait(30)
        found.append((threading.current_thread().name, np.geterr()["divide"]))

    with np.errstate(divide="raise"):
        both(meet, meet)
    assert {setting for _, setting in found} == {"raise"}
    assert {name == SECOND for name, _ in found} == {True, False}


@pytest.mark.usefixtures("two_threads")
def test_a_call_that_the_second_thread_has_not_begun_is_taken_back() -> None:
    is_free, took = threading.Event(), []
    threads._queue().put(threads._Job(lambda: is_free.wait(30), np.geterr()))
    both(lambda: None, lambda: took.append(threading.current_thread().name))
    is_free.set()
    assert took == [threading.current_thread().name]


@pytest.mark.usefixtures("two_threads")
def test_an_error_of_the_first_call_waits_for_the_second() -> None:
    done = []

    def fail() -> None:
        raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        both(fail, lambda: done.append(True))
    assert done == [True]


@pytest.mark.usefixtures("two_threads")
def test_without_a_limit_on_the_threads_of_blas_there_is_one_thread() -> None:
    names: list[str] = []
    calls = [lambda: names.append(threading.current_thread().name)] * 2
    with blas_threads(2):
        threads.call_all(calls, threads.WORTHWHILE)
    assert names == [threading.current_thread().name] * 2
    assert not threads.are_worthwhile(-1)


@pytest.mark.usefixtures("two_threads")
def test_a_copy_of_the_process_has_a_second_thread_of_its_own() -> None:
    both(lambda: None, lambda: None)
    child = os.fork()
    if not child:
        met = threading.Barrier(2)
        both(lambda: met.wait(30), lambda: met.wait(30))
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_networks_that_share_parameters_or_have_none_are_refused() -> None:
    params = TABLE.views(VECTOR)
    for names in (("one", "nothing"), ("one", "one/0"), ("body", "noise")):
        with pytest.raises(ModuleError, match=rf"{', '.join(names)} were to be .* below its name that no other has"):
            NumpyOps(np.float64).side_by_side(dict.fromkeys(names, network), params, X)

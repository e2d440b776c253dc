"""The parameter server: sharding, rules, pushes one by one and in steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from kernel_parallel.parameter_server import ParameterServer, StepTimeoutError, make_rule, spread

import kernel
from kernel.exceptions import OptionError, UsageError


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    kernel.shutdown()
    with kernel.init(num_cpus=2):
        yield


def test_weights_are_spread_by_size() -> None:
    homes = spread({"a": 10, "b": 70, "c": 30, "d": 30}, 2)
    assert homes == {"a": 1, "b": 0, "c": 1, "d": 1}
    assert spread({}, 3) == {}


def test_every_push_is_applied_as_it_comes() -> None:
    server = ParameterServer({"w": np.zeros(3), "b": np.ones((2, 2))}, num_shards=3, learning_rate=0.5)

    @kernel.remote(num_cpus=0.5)
    def work(server: ParameterServer, times: int) -> None:
        for _ in range(times):
            server.push({"w": np.full(3, 2.0)})

    kernel.get([work.remote(server, 10) for _ in range(4)])
    weights = server.pull()
    assert list(weights) == ["w", "b"] == server.names and server.num_shards == 3
    assert weights["w"].tolist() == [-40.0] * 3 and (weights["b"] == 1).all()
    assert server.push({"b": np.ones((2, 2)), "w": np.zeros(3)}) == 1
    assert list(server.pull(["b"])) == ["b"]
    server.set({"w": np.arange(3)})
    assert server.pull()["w"].tolist() == [0, 1, 2]


def test_a_step_is_the_mean_of_all_workers() -> None:
    server = ParameterServer({"w": np.zeros(2), "v": np.zeros(1)}, workers=3, learning_rate=1.0)

    @kernel.remote(num_cpus=0.5)
    def work(server: ParameterServer, rank: int) -> list[Any]:
        found = []
        for step in range(3):
            assert server.push({"w": np.full(2, 3.0 * rank), "v": np.ones(1)}, worker=rank) == step + 1
            found.append(server.pull()["w"][0])
        return found

    for found in kernel.get([work.remote(server, rank) for rank in range(3)]):
        assert found[0] <= -3.0 and found[-1] == -9.0
    assert server.pull()["v"].tolist() == [-3.0]


def test_workers_that_do_not_push_are_named() -> None:
    server = ParameterServer({"w": np.zeros(1)}, workers=3, timeout=0.3)
    with pytest.raises(StepTimeoutError, match=r"of 1 of 3 workers within 0.3 s: workers \[0, 2\] did not"):
        server.push({"w": np.ones(1)}, worker=1)
    with pytest.raises(StepTimeoutError, match="to know whose are missing"):
        server.push({"w": np.ones(1)})


def test_rules_do_what_their_papers_say() -> None:
    def after(rule: Any, times: int) -> float:
        weight = np.array([1.0])
        for _ in range(times):
            rule("w", weight, np.array([0.5]))
        return float(weight[0])

    assert after(make_rule("sgd", {"learning_rate": 0.1}), 2) == pytest.approx(0.9)
    assert after(make_rule("momentum", {"learning_rate": 0.1, "momentum": 0.5}), 2) == pytest.approx(1 - 0.05 - 0.075)
    assert after(make_rule("adam", {"learning_rate": 0.1}), 3) == pytest.approx(0.7, abs=1e-6)  # steps of the rate


def test_a_rule_may_be_a_function() -> None:
    def toward(name: str, weight: Any, gradient: Any) -> None:
        weight[...] = gradient

    server = ParameterServer({"w": np.zeros(2, np.float32)}, update=toward)
    server.push({"w": np.array([5.0, 6.0])})
    assert server.pull()["w"].tolist() == [5, 6] and server.pull()["w"].dtype == np.float32


def test_what_does_not_fit_is_refused() -> None:
    server = ParameterServer({"w": np.zeros(2)})
    for call, words in [
        (lambda: server.push({"x": np.zeros(2)}), "there is no weight 'x'; there are 'w'"),
        (lambda: server.push({"w": np.zeros(3)}), r"weight 'w' has the shape \(2,\), and was given one of \(3,\)"),
    ]:
        with pytest.raises(UsageError, match=words):
            call()
    for make, words in [
        (lambda: ParameterServer({}, update="sgdd"), "there is no update rule 'sgdd'; known are 'sgd'"),
        (lambda: ParameterServer({}, rate=3), "the update rule 'sgd' can't be made with"),
        (lambda: ParameterServer({}, num_shards=0), "at least 1, not 0"),
        (lambda: ParameterServer({}, update=print, rate=3), "a function takes none"),
    ]:
        with pytest.raises(OptionError, match=words):
            make()

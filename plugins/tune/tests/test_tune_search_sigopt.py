"""The SigOpt searcher against a local server that answers as SigOpt's documentation says."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import cloudpickle
import pytest
from kernel_tune import search_space as tune
from kernel_tune.errors import SearchSpaceError
from kernel_tune.searchers import FINISHED, ConcurrencyLimiter, SigOptSearch, create_searcher
from kernel_tune.searchers.adapters.sigopt_client import SigOptClient, SigOptError
from kernel_tune.testing.searchers import SearcherConformance
from kernel_tune.testing.sigopt_server import SigOptServer

WIDTH_AND_HEIGHT = [
    {"name": "width", "type": "int", "bounds": {"min": 0, "max": 20}},
    {"name": "height", "type": "int", "bounds": {"min": -100, "max": 100}},
]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[SigOptServer]:
    with SigOptServer() as running:
        monkeypatch.setenv("SIGOPT_KEY", "a token")
        monkeypatch.setenv("SIGOPT_API_URL", running.url)
        yield running


@pytest.fixture(scope="class")
def conformance_server(request: pytest.FixtureRequest) -> Iterator[None]:
    with SigOptServer() as running:
        request.cls.server = running
        yield


@pytest.mark.usefixtures("conformance_server")
class TestSigOpt(SearcherConformance):
    trials = 6
    server: SigOptServer

    def searcher(self, seed: int = 1, **options: Any) -> Any:
        type(self).make_searcher = lambda seed=1, **other: SigOptSearch(  # type: ignore[misc]
            connection=SigOptClient(f"token {seed}", self.server.url), max_concurrent=16, **other
        )
        return super().searcher(seed, **options)

    def test_takes_metric_and_mode_of_the_experiment(self) -> None:
        self.searcher()
        super().test_takes_metric_and_mode_of_the_experiment()


def test_the_requests_are_those_that_sigopt_documents(server: SigOptServer) -> None:
    searcher = SigOptSearch(WIDTH_AND_HEIGHT, name="An experiment", max_concurrent=2, observation_budget=30,
                            project="p", metric="mean_loss", mode="min")  # fmt: skip
    configs = [searcher.suggest(trial_id) for trial_id in ("one", "two", "three")]
    assert configs[2] is None and [set(config) for config in configs[:2]] == [{"width", "height"}] * 2
    searcher.on_trial_complete("one", {"mean_loss": 0.5})
    searcher.on_trial_complete("two", None, error=True)
    made, first, second, *ends = server.requests
    assert made[:2] == ("POST", "/v1/experiments") and made[2].pop("metadata")
    assert made[2] == {
        "name": "An experiment", "project": "p", "observation_budget": 30, "parallel_bandwidth": 2,
        "parameters": WIDTH_AND_HEIGHT,
        "metrics": [{"name": "mean_loss", "objective": "minimize", "strategy": "optimize"}],
    }  # fmt: skip
    assert {first[:2], second[:2]} == {("POST", "/v1/experiments/1/suggestions")} and set(first[2]) == {"metadata"}
    path = "/v1/experiments/1/observations"
    assert ends == [
        ("POST", path, {"suggestion": "1", "values": [{"name": "mean_loss", "value": 0.5}]}),
        ("POST", path, {"suggestion": "2", "failed": True}),
    ]


def test_a_space_of_tunes_is_told_as_parameters(server: SigOptServer) -> None:
    space = {
        "rate": tune.loguniform(1e-4, 1), "units": tune.randint(8, 65), "share": tune.quniform(0, 0.5, 0.25),
        "layers": tune.lograndint(1, 5), "shift": tune.randn(10, 2), "kind": tune.choice(["a", {"deep": 1}]),
    }  # fmt: skip
    point = {"rate": 0.1, "units": 9, "share": 0.25, "layers": 2, "shift": 10.0, "kind": "a"}
    searcher = SigOptSearch(space, metric="loss", mode="min", points_to_evaluate=[point])
    assert searcher.suggest("0") == point
    assert server.experiments[0]["parameters"] == [
        {"name": "rate", "type": "double", "bounds": {"min": 1e-4, "max": 1}, "transformation": "log"},
        {"name": "units", "type": "int", "bounds": {"min": 8, "max": 64}},
        {"name": "share", "type": "double", "grid": [0.0, 0.25, 0.5]},
        {"name": "layers", "type": "int", "grid": [1, 2, 3, 4]},
        {"name": "shift", "type": "double", "bounds": {"min": 0.0, "max": 1.0}},
        {"name": "kind", "type": "categorical", "categorical_values": [{"name": "0"}, {"name": "1"}]},
    ]
    told = {"rate": 0.1, "units": 9, "share": 0.25, "layers": 2, "shift": 0.5, "kind": "0"}
    assert server.suggestions[0]["assignments"] == pytest.approx(told)


def test_several_metrics_and_what_was_evaluated_before(server: SigOptServer) -> None:
    searcher = SigOptSearch(WIDTH_AND_HEIGHT, metric=["average", "std", "size"], mode=["max", "min", "obs"],
                            observation_budget=9)  # fmt: skip
    assert (searcher.metric, searcher.mode) == (["average", "std", "size"], ["max", "min", "obs"])
    searcher.suggest("0")
    searcher.on_trial_complete("0", {"average": 1.0, "std": 0.5, "size": 3})
    assert [metric["strategy"] for metric in server.experiments[0]["metrics"]] == ["optimize", "optimize", "store"]
    assert [each["value"] for each in server.observations[0]["values"]] == [1.0, 0.5, 3.0]
    known = SigOptSearch(experiment_id="1", metric="average", mode="max", max_concurrent=2,
                         points_to_evaluate=[{"width": 1, "height": 2}], evaluated_rewards=[4.0])  # fmt: skip
    assert known.suggest("0") != {"width": 1, "height": 2} and len(server.experiments) == 1
    assert server.observations[1]["assignments"] == {"width": 1, "height": 2}
    assert server.observations[1]["values"] == [{"name": "average", "value": 4.0}]


@pytest.mark.parametrize("copy", [lambda one: cloudpickle.loads(cloudpickle.dumps(one)), None], ids=["pickle", "state"])
def test_after_a_kill_trials_get_the_same_suggestions_again(server: SigOptServer, copy: Any) -> None:
    server.page = 2

    def new() -> SigOptSearch:
        return SigOptSearch(WIDTH_AND_HEIGHT, max_concurrent=3, metric="loss", mode="min")

    def again(old: Any, state: Any) -> Any:
        if copy is not None:
            return pickle.loads(old)
        restored = new()
        restored.set_state(state)
        return restored

    searcher = new()
    before = cloudpickle.dumps(searcher), searcher.get_state()
    server.suggestions.append({"id": "x", "experiment": "1", "metadata": None, "assignments": {}})  # somebody else's
    first, second = searcher.suggest("one"), searcher.suggest("two")
    between = cloudpickle.dumps(searcher), searcher.get_state()
    searcher.on_trial_complete("one", {"loss": 1.0})
    third = searcher.suggest("three")
    for state, asked in ((before, ("one", "two", "three")), (between, ("three",))):
        restored = again(*state)
        given = [restored.suggest(trial_id) for trial_id in asked]
        assert given == [first, second, third][-len(asked) :]
        restored.on_trial_complete("one", {"loss": 1.0})
        assert len(server.experiments) == 1 and len(server.suggestions) == 4 and len(server.observations) == 1
    restored.on_trial_complete("two", {"loss": 2.0})
    assert server.observations[-1]["values"] == [{"name": "loss", "value": 2.0}] and len(server.observations) == 2
    assert isinstance(restored.suggest("four"), dict) and len(server.suggestions) == 5


def test_errors_say_what_sigopt_said(server: SigOptServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.refusals = [429]
    searcher = create_searcher("sigopt", space=WIDTH_AND_HEIGHT, seed=3)
    with pytest.raises(SigOptError, match="refused POST experiments with status 429: Too many requests") as caught:
        searcher.suggest("0")
    assert caught.value.status == 429
    assert isinstance(searcher.suggest("0"), dict)
    with pytest.raises(SigOptError, match="refused GET experiments/7 with status 404: No experiment 7"):
        SigOptSearch(experiment_id="7").suggest("0")
    monkeypatch.setenv("SIGOPT_API_URL", "http://127.0.0.1:9")
    with pytest.raises(SigOptError, match=r"SigOpt at http://127.0.0.1:9 did not answer POST experiments: .*refused"):
        SigOptSearch(WIDTH_AND_HEIGHT).suggest("0")
    token = SigOptClient("secret", server.url)
    monkeypatch.delenv("SIGOPT_KEY")
    assert b"secret" not in pickle.dumps(token)
    for ask in (SigOptSearch, lambda: pickle.loads(pickle.dumps(token)).fetch("experiments/1")):
        with pytest.raises(SigOptError, match="no API token: put it into the environment, as SIGOPT_KEY"):
            ask()


def test_arguments_that_contradict_each_other(server: SigOptServer) -> None:
    with pytest.raises(SearchSpaceError, match="has a space and an experiment_id"):
        SigOptSearch(WIDTH_AND_HEIGHT, experiment_id="1")
    with pytest.raises(SearchSpaceError, match="max_concurrent is 0: at least one trial"):
        SigOptSearch(WIDTH_AND_HEIGHT, max_concurrent=0)
    with pytest.raises(ValueError, match="give 'min', 'max' or 'obs' for each of the metrics a, b"):
        SigOptSearch(WIDTH_AND_HEIGHT, metric=["a", "b"], mode=["min"])
    limited = ConcurrencyLimiter(SigOptSearch(WIDTH_AND_HEIGHT), 2)
    assert [limited.suggest(n) in (None, FINISHED) for n in "abc"] == [False, False, True]
    assert server.experiments[0]["parallel_bandwidth"] == 2

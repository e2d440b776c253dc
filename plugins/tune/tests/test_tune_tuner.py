"""`Tuner`: results, restoring, budgets, copies elsewhere, the server, and what goes wrong."""

from __future__ import annotations

import json
import shlex
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from kernel_tune.execution.run_parts import space_of

from kernel import tune
from kernel.testing.ports import free_port
from kernel.tune.searchers import ConcurrencyLimiter, Repeater, Searcher, TPESearch
from kernel.tune.server.client import TuneClient

pytestmark = pytest.mark.usefixtures("session")


def objective(config: dict[str, Any]) -> None:
    for step in range(3):
        tune.report({"score": -((config["x"] - 3) ** 2) - 1 / (1 + step)})


def tuner(trainable: Any = objective, *, run: dict[str, Any] | None = None, **config: Any) -> tune.Tuner:
    config = {"metric": "score", "mode": "max", "num_samples": 4, "seed": 3, "reuse_actors": True, **config}
    return tune.Tuner(
        trainable,
        param_space={"x": tune.uniform(0, 6)},
        tune_config=tune.TuneConfig(**config),
        run_config=tune.RunConfig(verbose=0, **(run or {})),
    )


def test_results_of_a_search(results: Path) -> None:
    grid = tuner(num_samples=12, search_alg=TPESearch(seed=1, n_initial_points=4)).fit()
    best = grid.get_best_result()
    assert len(grid) == 12 and grid.num_errors == 0
    assert best.metrics["score"] == max(result.metrics["score"] for result in grid)
    assert abs(best.config["x"] - 3) < 1.5
    assert len(grid.get_dataframe()) == 12
    assert Path(best.path, "result.json").exists()


@pytest.mark.parametrize("wrap", [lambda it: it, lambda it: ConcurrencyLimiter(it, 1), lambda it: Repeater(it, 2)])
def test_as_many_trials_as_were_asked_for(results: Path, wrap: Any) -> None:
    grid = tuner(num_samples=4, search_alg=wrap(TPESearch(seed=1)), max_concurrent_trials=2).fit()
    assert len(grid) == 4


def test_a_seed_repeats_everything(results: Path) -> None:
    first, second = (tuner(search_alg="tpe", deterministic=True).fit() for _ in range(2))
    assert [each.config for each in first] == [each.config for each in second]
    assert [Path(each.path).name for each in first] == [Path(each.path).name for each in second]


def test_failed_trials_are_results_and_can_be_tried_again(results: Path, tmp_path: Path) -> None:
    switch = tmp_path / "works"

    def fickle(config: dict[str, Any]) -> None:
        tune.report({"score": 1})
        if config["x"] > 3 and not switch.exists():
            raise ValueError("not yet")
        tune.report({"score": 2})

    grid = tuner(fickle, run={"name": "fickle"}).fit()
    failed = [result for result in grid if result.error is not None]
    assert 0 < len(failed) < 4 and all("not yet" in str(result.error) for result in failed)
    switch.touch()
    assert tune.Tuner.can_restore(str(results / "fickle"))
    again = tune.Tuner.restore(str(results / "fickle"), fickle, resume_errored=True).fit()
    assert again.num_errors == 0 and [each.metrics["score"] for each in again] == [2, 2, 2, 2]
    for result in again:
        lines = Path(result.path, "result.json").read_text().splitlines()
        assert [json.loads(line)["score"] for line in lines] == [1, 2]


def test_nothing_to_restore(results: Path) -> None:
    with pytest.raises(tune.TuneError, match="no experiment to resume is in .*nowhere"):
        tune.Tuner.restore(str(results / "nowhere"), objective)
    with pytest.raises(ValueError, match="resume is True, but there is no experiment in .*nowhere"):
        tuner(run={"name": "nowhere", "resume": True}).fit()
    with pytest.raises(RuntimeError, match="no results yet"):
        tuner().get_results()


def test_a_time_budget_ends_everything(results: Path) -> None:
    def forever(config: dict[str, Any]) -> None:
        while True:
            tune.report({"score": 1})
            time.sleep(0.01)

    grid = tuner(forever, num_samples=-1, time_budget_s=2, max_concurrent_trials=2).fit()
    assert len(grid) == 2


def test_a_copy_is_kept_elsewhere_and_resumed_from(results: Path, tmp_path: Path) -> None:
    address = f"file://{tmp_path}/elsewhere"
    grid = tuner(run={"name": "copied", "storage_path": address}).fit()
    there = tmp_path / "elsewhere" / "copied"
    for result in grid:
        copy = there / Path(result.path).name / "result.json"
        assert copy.read_bytes() == Path(result.path, "result.json").read_bytes()
    assert tune.Tuner.can_restore(f"{address}/copied") and not tune.Tuner.can_restore(f"{address}/other")
    (results / "copied").rename(results / "lost")
    assert [each.config for each in tune.Tuner.restore(f"{address}/copied", objective).fit()] == [
        each.config for each in grid
    ]


def test_copying_by_a_command(results: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    sync = tune.SyncConfig(upload_dir=str(target), syncer="cp -r {source} {target}")
    tuner(run={"name": "mine", "sync_config": sync}).fit()
    assert list(target.rglob("result.json"))
    with pytest.raises(ValueError, match="must contain {source} and {target}"):
        tuner(run={"sync_config": tune.SyncConfig(upload_dir=str(target), syncer="cp -r")}).fit()


class Durable(tune.DurableTrainable):
    """Copies its checkpoints itself."""

    def setup(self, config: dict[str, Any]) -> None:
        self.count = 0

    def step(self) -> dict[str, Any]:
        self.count += 1
        return {"score": self.count}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"count": self.count}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.count = checkpoint["count"]


def test_durable_trainables_copy_their_checkpoints_themselves(results: Path, tmp_path: Path) -> None:
    address = f"file://{tmp_path}/elsewhere"
    (trial,) = tune.run(
        Durable, name="durable", upload_dir=address, sync_to_cloud=False, checkpoint_freq=2, verbose=0,
        stop={"training_iteration": 4}, return_trials=True,
    )  # fmt: skip
    there = tmp_path / "elsewhere" / "durable" / str(trial)
    assert sorted(path.name for path in there.iterdir()) == ["checkpoint_000002", "checkpoint_000004"]
    assert [path.name for path in there.parent.iterdir()] == [str(trial)]  # nobody else copies
    again = Durable(f"{address}/durable", {})
    again._run_place.trial_name = str(trial)
    again.restore(str(tmp_path / "fetched" / "checkpoint_000004"))
    assert again.count == 4 and again.iteration == 4


def test_sync_to_driver_that_can_not_be_is_refused(results: Path) -> None:
    with pytest.raises(ValueError, match=r"the sync command 'rsync' must contain \{source\} and \{target\}"):
        tune.run(objective, sync_to_driver="rsync")
    with pytest.raises(tune.TuneError, match=r"sync_to_driver is 3: it is None or True \(by kernel itself\), False"):
        tune.run(objective, sync_to_driver=3)
    assert not results.exists()


class Serving(tune.Callback):
    """Does something with the server of an experiment as soon as a trial runs."""

    def __init__(self, act: Any) -> None:
        self._act = act
        self.thread: threading.Thread | None = None
        self.outcome: list[Any] = []

    def setup(self, *args: Any, local_dir: str = "", **info: Any) -> None:
        self._directory = local_dir

    def on_trial_result(self, *args: Any, **info: Any) -> None:
        if self.thread is None:
            self.thread = threading.Thread(target=self._run)
            self.thread.start()

    def _run(self) -> None:
        token = Path(self._directory, "server.token").read_text()
        self.outcome.append(self._act(token))


def test_the_server_lists_adds_and_stops_trials(results: Path) -> None:
    tune.register_trainable("other", objective)
    port = free_port()

    def patient(config: dict[str, Any]) -> None:
        while True:
            tune.report({"score": 1})
            time.sleep(0.01)

    early = TuneClient("127.0.0.1", port)
    with pytest.raises(tune.TuneError, match="no tune server answers at http://127.0.0.1:.*: run with with_server"):
        early.get_all_trials()

    def act(token: str) -> Any:
        assert early.get_all_trials(), "it finds the token of a server that began after it was made"
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/trials")
        assert refused.value.code == 401 and "experiment's directory as server.token" in refused.value.read().decode()
        assert TuneClient("localhost", port).get_all_trials(), "whoever is the same user needs no token"
        with pytest.raises(tune.TuneError, match="refused GET /trials: a token is needed"):
            TuneClient("127.0.0.1", port, "another").get_all_trials()
        client = TuneClient("127.0.0.1", port, token)
        first = next(each for each in client.get_all_trials() if each["status"] == "RUNNING")
        assert client.get_trial(first["id"])["status"] == "RUNNING"
        with pytest.raises(tune.TuneError, match="there is no trial nobody"):
            client.get_trial("nobody")
        with pytest.raises(tune.TuneError, match="no trial was added: experiment 'bad' has no 'run'"):
            client.add_trial("bad", {"config": {}})
        (added,) = client.add_trial("added", {"run": "other", "config": {"x": 3}})
        client.stop_trial(first["id"])
        deadline = time.monotonic() + 120
        while client.get_trial(added)["status"] != "TERMINATED":
            assert time.monotonic() < deadline
            time.sleep(0.02)
        client.stop_experiment()
        return added

    serving = Serving(act)
    trials = tune.run(
        patient, num_samples=2, with_server=True, server_port=port, callbacks=[serving], verbose=0, return_trials=True
    )
    assert serving.thread is not None
    serving.thread.join()
    (added,) = serving.outcome
    by_id = {trial.trial_id: trial for trial in trials}
    assert by_id[added].last_result["score"] == pytest.approx(-1 / 3) and len(trials) >= 3
    assert all(str(trial.status) == "TERMINATED" for trial in trials)
    assert not list(results.rglob("*.token")) and not list(results.rglob(".*.token"))


def test_the_documented_requests_of_curl(results: Path) -> None:
    """Each line of the documentation, asked as curl would."""
    page = Path(__file__).parents[3] / "docs" / "tune.md"
    lines = [line for line in page.read_text().splitlines() if line.startswith("curl ")]
    assert len(lines) == 3
    port = free_port()

    def patient(config: dict[str, Any]) -> None:
        while True:
            tune.report({"score": 1})
            time.sleep(0.01)

    def asked(line: str, token: str, trial_id: str = "") -> Any:
        line = line.replace("$(cat results/served/server.token)", token).replace("TRIAL_ID", trial_id)
        words = shlex.split(line.replace(":4321/", f":{port}/"))
        header, method = words[2], words[4] if words[3] == "-X" else "GET"
        request = urllib.request.Request(words[-1], method=method, headers=dict([header.split(": ", 1)]))
        return json.load(urllib.request.urlopen(request, timeout=120))

    def act(token: str) -> Any:
        (trial,) = asked(lines[0], token)["trials"]
        return trial["id"], asked(lines[1], token, trial["id"])["trial"], asked(lines[2], token, trial["id"])["trial"]

    serving = Serving(act)
    (trial,) = tune.run(
        patient, name="served", with_server=True, server_port=port, callbacks=[serving], verbose=0, return_trials=True
    )
    assert serving.thread is not None
    serving.thread.join()
    ((trial_id, listed, stopped),) = serving.outcome
    assert trial_id == listed["id"] == stopped["id"] == trial.trial_id and listed["status"] == "RUNNING"
    assert str(trial.status) == "TERMINATED"


def test_a_searcher_that_raises_is_named_and_the_experiment_can_go_on(results: Path, tmp_path: Path) -> None:
    switch = tmp_path / "mended"

    class Brittle(Searcher):
        def suggest(self, trial_id: str) -> dict[str, Any]:
            self.made = getattr(self, "made", 0) + 1
            if self.made > 2 and not switch.exists():
                raise ZeroDivisionError("of my own")
            return {"x": self.made}

    def run() -> Any:
        return tune.run(
            objective, name="brittle", search_alg=Brittle(), num_samples=4, verbose=0, resume="AUTO",
            max_concurrent_trials=1, metric="score", mode="max",
        )  # fmt: skip

    with pytest.raises(tune.TuneError, match="Brittle raised ZeroDivisionError: of my own.*resume") as error:
        run()
    assert isinstance(error.value.__cause__, ZeroDivisionError)
    switch.touch()
    assert [trial.config["x"] for trial in run().trials] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_samples": 0.5}, "num_samples is 0.5"),
        ({"mode": "best"}, "mode is 'best': it is 'min' or 'max'"),
        ({"search_alg": "tpee"}, "there is no searcher 'tpee'; did you mean 'tpe'"),
        ({"scheduler": "ashaa"}, "ashaa"),
        ({"search_alg": object()}, "search_alg is <object"),
    ],
)
def test_bad_settings_are_refused_at_once(results: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        tuner(**arguments).fit()


class Trainer:
    """Something of a library of its own, which makes a trainable of itself."""

    def __init__(self, label: str) -> None:
        self.label = label

    def as_trainable(self) -> type[tune.Trainable]:
        label = self.label

        class Training(tune.Trainable):
            def setup(self, config: dict[str, Any]) -> None:
                self.datasets = {name: len(rows) for name, rows in config["datasets"].items()}

            def step(self) -> dict[str, Any]:
                logged = sorted(self.config)
                return {"label": label, "datasets": self.datasets, "logged": logged, "done": True}

        return Training


def test_name_callbacks_and_datasets_given_directly(results: Path) -> None:
    ended: list[str] = []

    class Ended(tune.Callback):
        def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            ended.append(trial.trial_id)

    space = {
        "scaling_config": {"num_actors": tune.grid_search([2, 4])},
        "preprocessor": tune.grid_search([len, object]),
    }
    tuner = tune.Tuner(
        Trainer("target"), run_config={"verbose": 0}, param_space=space, name="tuner_resume", callbacks=[Ended()]
    )
    grid = tuner.fit(datasets={"train_dataset": [1, 2, 3]})
    assert len(grid.results) == len(ended) == 4 and Path(grid.experiment_path).name == "tuner_resume"
    assert [result.metrics["datasets"] for result in grid] == [{"train_dataset": 3}] * 4
    assert grid[0].metrics["label"] == "target" and grid[0].metrics["logged"] == ["preprocessor", "scaling_config"]
    chosen = {"datasets": {"train_dataset": tune.grid_search([[1], [1, 2]])}}
    tuner = tune.Tuner(Trainer("target"), run_config={"verbose": 0}, param_space=chosen, callbacks=None)
    grid = tuner.fit(datasets={"train_dataset": [1, 2, 3], "other": []})
    assert [result.metrics["datasets"] for result in grid] == [
        {"train_dataset": 1, "other": 0}, {"train_dataset": 2, "other": 0},
    ]  # fmt: skip
    with pytest.raises(ValueError, match="the experiment has two names, 'one' and 'two' of run_config: give one"):
        tune.Tuner(Trainer("target"), name="one", run_config={"name": "two"})


def test_datasets_for_functions_of_all_kinds(results: Path) -> None:
    def of_config(config: dict[str, Any]) -> dict[str, Any]:
        return {"rows": len(config["datasets"]["rows"])}

    def with_reporter(config: dict[str, Any], reporter: Any) -> None:
        reporter(rows=len(config["datasets"]["rows"]))

    def yielding(config: dict[str, Any]) -> Any:
        yield {"rows": len(config["datasets"]["rows"])}

    tune.register_trainable("by_name", of_config)
    for trainable in (of_config, with_reporter, yielding, "by_name"):
        (result,) = tune.Tuner(trainable, run_config={"verbose": 0}).fit(datasets={"rows": [1, 2]})
        assert result.metrics["rows"] == 2
    assert tune.Tuner("by_name", run_config={"verbose": 0}).fit().num_errors == 1  # the name means what it meant


def test_datasets_are_there_again_when_a_search_is_restored(results: Path) -> None:
    def once(config: dict[str, Any]) -> None:
        if not (marker := Path(config["folder"], "was_here")).exists():
            marker.touch()
            raise OSError("of my own")
        tune.report(rows=len(config["datasets"]["rows"]))

    results.mkdir()
    space = {"folder": str(results)}
    first = tune.Tuner(once, run_config={"verbose": 0}, name="again", param_space=space).fit(datasets={"rows": [1]})
    assert first.num_errors == 1
    restored = tune.Tuner.restore(first.experiment_path, once, resume_errored=True).fit(datasets={"rows": [1, 2]})
    assert [result.metrics["rows"] for result in restored] == [2]


class Settings:
    """A config of some library."""

    def to_dict(self) -> dict[str, Any]:
        return {"x": tune.grid_search([1, 2])}


def test_a_config_that_says_what_it_is_as_a_dict_is_a_space_and_others_are_not() -> None:
    assert space_of(Settings()) == Settings().to_dict() and space_of(None) == {} and space_of({"x": 1}) == {"x": 1}
    for wrong in (Settings, [1], 3):
        with pytest.raises(TypeError, match="the search space is .*: it is a dict of what each trial gets"):
            tune.Tuner(lambda config: None, param_space=wrong)

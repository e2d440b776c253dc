"""What is told to MLflow, W&B and Comet, whose client libraries are stood in for by recorders with their signatures.

The tests in `tests_trackers` run the real libraries.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kernel_runs.errors import OptionalDependencyError, RunError
from kernel_runs.loggers import CometLoggerCallback, MLflowLoggerCallback, WandbLoggerCallback
from kernel_runs.run import Run

RESULTS = [
    {"score": 0.5 * i, "a": {"b": i}, "text": "x", "pid": 7, "trial_id": "a826033a", "done": False,
     "training_iteration": i, "timestamp": 5, "config": {"x": 1}}
    for i in (1, 2, 3)
]  # fmt: skip


def a_trial(**other: Any) -> Run:
    return Run("f", **{"config": {"x": 1, "deep": {"f": len}}, "trial_id": "a826033a", "name": "t", **other})


class Mlflow(ModuleType):
    """As much of mlflow as is used: experiments and runs, kept in lists."""

    def __init__(self) -> None:
        super().__init__("mlflow")
        self.experiments: dict[str, str] = {}
        self.runs: dict[str, SimpleNamespace] = {}
        self.artifacts: list[str] = []
        self.entities = ModuleType("mlflow.entities")
        self.entities.Metric = lambda key, value, timestamp, step: SimpleNamespace(**locals())  # type: ignore
        self.entities.Param = lambda key, value: (key, value)  # type: ignore

    def MlflowClient(self, tracking_uri: str | None = None, registry_uri: str | None = None) -> Mlflow:
        self.uri = tracking_uri
        return self

    def get_experiment_by_name(self, name: str) -> Any:
        return SimpleNamespace(experiment_id=self.experiments[name]) if name in self.experiments else None

    def create_experiment(self, name: str) -> str:
        self.experiments[name] = str(len(self.experiments) + 1)
        return self.experiments[name]

    def create_run(self, experiment_id: str, run_name: str | None = None, tags: dict[str, Any] | None = None) -> Any:
        info = SimpleNamespace(run_id=f"run{len(self.runs)}", name=run_name, experiment_id=experiment_id)
        run = SimpleNamespace(info=info, tags=tags, metrics=[], params={}, status="RUNNING")
        self.runs[info.run_id] = run
        return run

    def search_runs(self, experiment_ids: list[str], filter_string: str = "") -> list[Any]:
        return [run for run in self.runs.values() if f"tags.trial_id = '{run.tags['trial_id']}'" == filter_string]

    def get_metric_history(self, run_id: str, key: str) -> list[Any]:
        return [metric for metric in self.runs[run_id].metrics if metric.key == key]

    def log_batch(self, run_id: str, metrics: Any = (), params: Any = (), tags: Any = ()) -> None:
        self.runs[run_id].metrics.extend(metrics)
        self.runs[run_id].params.update(params)

    def log_artifacts(self, run_id: str, local_dir: str) -> None:
        self.artifacts.append(local_dir)

    def set_terminated(self, run_id: str, status: str | None = None) -> None:
        self.runs[run_id].status = status


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Mlflow:
    module = Mlflow()
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setitem(sys.modules, "mlflow.entities", module.entities)
    monkeypatch.delenv("MLFLOW_EXPERIMENT_ID", raising=False)
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    return module


def test_mlflow_gets_a_run_a_trial(mlflow: Mlflow, tmp_path: Path) -> None:
    callback = MLflowLoggerCallback("sqlite:///x", experiment_name="e", tags={"who": "me"}, save_artifact=True)
    trial = a_trial(local_dir=str(tmp_path))
    (tmp_path / "t").mkdir()
    callback.setup()
    callback.on_trial_start(0, [trial], trial)
    callback.on_trial_results(0, [trial], trial, RESULTS)
    callback.on_trial_complete(0, [trial], trial)
    (run,) = mlflow.runs.values()
    assert run.tags == {"who": "me", "trial_name": "t", "trial_id": "a826033a"} and run.info.experiment_id == "1"
    assert run.params["x"] == "1" and "len" in run.params["deep/f"] and run.status == "FINISHED"
    scores = [(metric.step, metric.value, metric.timestamp) for metric in run.metrics if metric.key == "score"]
    assert scores == [(1, 0.5, 5000), (2, 1.0, 5000), (3, 1.5, 5000)]
    assert {metric.key for metric in run.metrics} >= {"a/b", "training_iteration"}
    assert "text" not in {metric.key for metric in run.metrics} and mlflow.artifacts == [trial.logdir]


def test_a_resumed_experiment_logs_no_result_twice_in_mlflow(mlflow: Mlflow) -> None:
    for remembered in (1, 2):
        mlflow.runs.clear()
        callback, trial = MLflowLoggerCallback(experiment_name="e", log_params_on_trial_end=True), a_trial()
        callback.setup()
        callback.on_trial_start(0, [trial], trial)
        callback.on_trial_results(0, [trial], trial, RESULTS[:2])
        callback = MLflowLoggerCallback(experiment_name="e", log_params_on_trial_end=True)
        callback.setup()
        trial = a_trial(results=remembered)
        callback.on_trial_start(1, [trial], trial)
        callback.on_trial_results(1, [trial], trial, RESULTS[remembered:])
        callback.on_trial_error(1, [trial], trial)
        (run,) = mlflow.runs.values()
        assert [metric.step for metric in run.metrics if metric.key == "score"] == [1, 2, 3], remembered
        assert run.status == "FAILED" and run.params["x"] == "1"


def test_the_experiment_is_found_by_argument_or_environment(mlflow: Mlflow, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match=r"give experiment_name=..., or set MLFLOW_EXPERIMENT_NAME"):
        MLflowLoggerCallback().setup()
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "named")
    MLflowLoggerCallback().setup()
    assert mlflow.experiments == {"named": "1"}
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "77")
    for more in ({}, {"experiment_name": "given"}):
        callback, trial = MLflowLoggerCallback(**more), a_trial()
        callback.setup()
        callback.on_trial_start(1, [trial], trial)
    assert [run.info.experiment_id for run in mlflow.runs.values()] == ["77", "2"]


class FakeCheckpoint:
    @contextmanager
    def as_directory(self) -> Iterator[str]:
        yield "/checkpoint"


class WandbRun:
    def __init__(self, given: dict[str, Any]) -> None:
        self.given, self.logged, self.artifacts, self.exit_code = given, [], [], None
        self.config = SimpleNamespace(values={}, update=self._update)

    def _update(self, d: dict[str, Any], allow_val_change: bool | None = None) -> None:
        self.config.values.update(d)

    def log(self, data: dict[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        self.logged.append((step, data))

    def log_artifact(self, artifact: Any) -> None:
        self.artifacts.append(artifact)

    def finish(self, exit_code: int | None = None) -> None:
        self.exit_code = exit_code


def test_wandb_gets_a_run_a_trial(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs: list[WandbRun] = []
    module = ModuleType("wandb")

    def init(*, id: str, name: str, project: str, group: str, config: dict[str, Any], resume: str, reinit: str,
             allow_val_change: bool, mode: str) -> WandbRun:  # fmt: skip
        runs.append(WandbRun(locals()))
        return runs[-1]

    class Artifact:
        def __init__(self, name: str, type: str) -> None:
            self.name, self.directories = name, []

        def add_dir(self, local_path: str) -> None:
            self.directories.append(local_path)

    module.init, module.Artifact = init, Artifact  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.setenv("WANDB_API_KEY", "")
    (tmp_path / "key").write_text("secret\n")
    callback = WandbLoggerCallback(
        "p",
        api_key_file=str(tmp_path / "key"),
        excludes=["a"],
        log_config=True,
        upload_checkpoints=True,
        mode="offline",
    )
    trials = [a_trial(), a_trial(trial_id="b", name="u")]
    callback.setup()
    assert os.environ["WANDB_API_KEY"] == "secret"
    for trial in trials:
        callback.on_trial_start(0, trials, trial)
    callback.on_trial_start(1, trials, trials[0])
    callback.on_trial_results(1, trials, trials[0], RESULTS[:1])
    callback.on_checkpoint(1, trials, trials[0], FakeCheckpoint())
    callback.on_trial_error(2, trials, trials[0])
    callback.on_experiment_end(trials)
    assert len(runs) == 2 and runs[0].given["id"] == "a826033a" and runs[0].given["group"] == "f"
    assert runs[0].given["config"]["x"] == 1 and "len" in runs[0].given["config"]["deep"]["f"]
    assert (runs[0].given["resume"], runs[0].given["reinit"]) == ("allow", "create_new")
    assert runs[0].logged == [(1, {"score": 0.5, "text": "x", "training_iteration": 1, "timestamp": 5})]
    assert runs[0].config.values["pid"] == 7 and runs[0].config.values["x"] == 1
    assert [artifact.directories for artifact in runs[0].artifacts] == [["/checkpoint"]]
    assert [run.exit_code for run in runs] == [1, 0]


def test_comet_gets_an_experiment_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Experiment:
        def __init__(self, **given: Any) -> None:
            self.given, self.calls = given, []
            made.append(self)

        def __getattr__(self, name: str) -> Any:
            return lambda *arguments, **named: self.calls.append((name, *arguments, *named.items()))

    class Artifact:
        def __init__(self, name: str, artifact_type: str) -> None:
            self.name = name

        def add(self, local_path_or_data: str) -> None:
            self.added = local_path_or_data

    module, config = ModuleType("comet_ml"), ModuleType("comet_ml.config")
    module.OfflineExperiment, module.Artifact = Experiment, Artifact  # type: ignore[attr-defined]
    unset = []
    config.set_global_experiment = unset.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "comet_ml", module)
    monkeypatch.setitem(sys.modules, "comet_ml.config", config)
    callback = CometLoggerCallback(online=False, tags=["t1"], save_checkpoints=True, project_name="p")
    trial = a_trial(config={"x": 1})
    callback.setup()
    callback.on_trial_start(0, [trial], trial)
    callback.on_trial_results(0, [trial], trial, RESULTS[:1])
    callback.on_checkpoint(0, [trial], trial, FakeCheckpoint())
    callback.on_trial_complete(0, [trial], trial)
    (experiment,) = made
    assert experiment.given["project_name"] == "p" and experiment.given["log_env_cpu"] is False and unset == [None]
    calls = {call[0]: call[1:] for call in experiment.calls}
    assert calls["set_name"] == ("t",) and calls["add_tags"] == (["t1"],) and calls["log_parameters"] == ({"x": 1},)
    assert calls["log_others"] == ({"trial_id": "a826033a"},) and calls["log_system_info"] == ("pid", 7)
    numbers = {"score": 0.5, "a/b": 1, "text": "x", "training_iteration": 1, "timestamp": 5}
    assert calls["log_metrics"] == (numbers, ("step", 1))
    assert calls["log_artifact"][0].added == "/checkpoint" and experiment.calls[-1] == ("end",)


@pytest.mark.parametrize(
    ("make", "library", "install"),
    [(MLflowLoggerCallback, "mlflow", "mlflow"), (WandbLoggerCallback, "wandb", "wandb"),
     (CometLoggerCallback, "comet_ml", "comet-ml")],
)  # fmt: skip
def test_a_library_that_is_missing_or_broken_is_named(
    make: Any, library: str, install: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(OptionalDependencyError, match=rf"{make.__name__} needs the library '{library}'.*{install}"):
        make().setup()
    monkeypatch.delitem(sys.modules, library)
    (tmp_path / f"{library}.py").write_text("import not_there_at_all")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(OptionalDependencyError, match=r"fails to import \(ModuleNotFoundError: No module named"):
        make().setup()

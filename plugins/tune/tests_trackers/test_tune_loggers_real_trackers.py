"""Loggers with the real client libraries; run by hand: pip install mlflow-skinny sqlalchemy alembic wandb comet-ml."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import mlflow
import pytest
from kernel_tune.trial import Trial

import kernel
from kernel import tune
from kernel_runs.loggers import CometLoggerCallback, MLflowLoggerCallback, WandbLoggerCallback

RESULTS = [
    {"score": 0.5 * i, "training_iteration": i, "timestamp": 1_700_000_000 + i, "host": "x", "config": {"x": 1}}
    for i in range(1, 5)
]


def a_trial(folder: Path, **other: Any) -> Trial:
    return Trial("f", **{"config": {"x": 1, "n": {"a": 2}}, "trial_id": "a826033a", "local_dir": str(folder),
                         "name": "t", **other})  # fmt: skip


@pytest.mark.parametrize("store", ["sqlite", "files"])
def test_a_resumed_trial_goes_on_with_its_mlflow_run(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    where = f"sqlite:///{tmp_path}/m.db" if store == "sqlite" else str(tmp_path / "store")
    trial = a_trial(tmp_path)
    callback = MLflowLoggerCallback(where, experiment_name="e", tags={"who": "me"})
    callback.setup()
    callback.on_trial_start(0, [trial], trial)
    callback.on_trial_results(0, [trial], trial, RESULTS[:3])
    trial = a_trial(tmp_path, results=2)
    callback = MLflowLoggerCallback(where, experiment_name="e")
    callback.setup()
    callback.on_trial_start(0, [trial], trial)
    callback.on_trial_results(0, [trial], trial, RESULTS[2:])
    callback.on_trial_complete(0, [trial], trial)
    client = mlflow.MlflowClient(where)
    experiment = client.get_experiment_by_name("e")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.data.params == {"x": "1", "n/a": "2"} and run.data.tags["who"] == "me" and run.info.status == "FINISHED"
    history = client.get_metric_history(run.info.run_id, "score")
    assert [(metric.step, metric.value) for metric in history] == [(1, 0.5), (2, 1.0), (3, 1.5), (4, 2.0)]


@pytest.mark.parametrize("store", ["sqlite", "files"])
def test_a_whole_experiment_in_a_store_of_mlflows(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "results"))
    where = f"sqlite:///{tmp_path}/m.db" if store == "sqlite" else str(tmp_path / "store")
    if store == "sqlite":
        monkeypatch.chdir(tmp_path)  # where artifacts go with a database

    def train(config: dict[str, Any]) -> None:
        for step in range(1, 4):
            tune.report({"score": config["x"] * step})
        if config["x"] == 2:
            raise ValueError("on purpose")

    with kernel.init(num_cpus=2, log_to_driver=False):
        results = tune.Tuner(
            train,
            param_space={"x": tune.grid_search([1, 2])},
            run_config=tune.RunConfig(
                callbacks=[MLflowLoggerCallback(where, experiment_name="e", save_artifact=True)], verbose=0
            ),
        ).fit()
    client = mlflow.MlflowClient(where)
    runs = client.search_runs([client.get_experiment_by_name("e").experiment_id])
    assert {run.data.params["x"]: run.info.status for run in runs} == {"1": "FINISHED", "2": "FAILED"}
    assert {run.data.tags["trial_id"] for run in runs} == {result.metrics["trial_id"] for result in results}
    for run in runs:
        history = client.get_metric_history(run.info.run_id, "score")
        assert [metric.value for metric in history] == [float(run.data.params["x"]) * step for step in (1, 2, 3)]
        assert "result.json" in {file.path.rpartition("/")[2] for file in client.list_artifacts(run.info.run_id)}


def test_wandb_runs_offline_side_by_side(tmp_path: Path) -> None:
    trials = [a_trial(tmp_path), a_trial(tmp_path, trial_id="b826033a", name="u")]
    callback = WandbLoggerCallback("p", mode="offline", dir=str(tmp_path))
    callback.setup()
    for trial in trials:
        callback.on_trial_start(0, trials, trial)
    for trial in trials:
        callback.on_trial_results(0, trials, trial, RESULTS)
    callback.on_trial_complete(1, trials, trials[0])
    callback.on_trial_error(1, trials, trials[1])
    files = sorted(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))
    assert [path.stem for path in files] == ["run-a826033a", "run-b826033a"]
    for path in files:
        assert path.read_bytes().count(b"score") >= len(RESULTS)


def test_comet_experiments_offline_side_by_side(tmp_path: Path) -> None:
    trials = [a_trial(tmp_path), a_trial(tmp_path, trial_id="b826033a", name="u")]
    callback = CometLoggerCallback(
        online=False, tags=["t"], offline_directory=str(tmp_path / "comet"), project_name="p"
    )
    callback.setup()
    for trial in trials:
        callback.on_trial_start(0, trials, trial)
    for trial in trials:
        callback.on_trial_results(0, trials, trial, RESULTS)
    for trial in trials:
        callback.on_trial_complete(1, trials, trial)
    archives = list((tmp_path / "comet").glob("*.zip"))
    assert len(archives) == 2
    for archive in archives:
        lines = zipfile.ZipFile(archive).read("messages.json").decode().splitlines()
        payloads = [json.loads(line)["payload"] for line in lines]
        metrics = [payload["metric"] for payload in payloads if payload.get("metric")]
        scores = [(metric["step"], metric["metricValue"]) for metric in metrics if metric["metricName"] == "score"]
        assert [(step, float(value)) for step, value in scores] == [(1, 0.5), (2, 1.0), (3, 1.5), (4, 2.0)]

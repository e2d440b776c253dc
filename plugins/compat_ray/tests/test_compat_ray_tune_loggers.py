"""Loggers of one trial, as the first releases have them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kernel_compat_ray.tune.loggers import (
    DEFAULT_LOGGERS,
    CSVLogger,
    JsonLogger,
    MLFLowLogger,
    NoopLogger,
    TBXLogger,
    UnifiedLogger,
)

from kernel.runs import Run
from kernel.runs.loggers import (
    CSVLoggerCallback,
    JsonLoggerCallback,
    MLflowLoggerCallback,
    TBXLoggerCallback,
    callbacks_of,
)


def test_the_default_loggers_write_the_three_files(tmp_path: Path) -> None:
    synced = []
    trial = Run("f", trial_id="a826033a", evaluated_params={"x": 1})
    logger = UnifiedLogger({"x": 1}, str(tmp_path / "t"), trial, sync_function=synced.append)
    logger.on_result({"a": {"b": 1}})
    logger.update_config({"x": 2})
    logger.on_result({"a": {"b": 2}})
    logger.flush()
    logger.close()
    names = {"result.json", "progress.csv", "params.json", "params.pkl", "events.out.tfevents.a826033a"}
    assert {path.name for path in (tmp_path / "t").iterdir()} == names
    assert (tmp_path / "t/progress.csv").read_text() == "a/b\n1\n2\n"
    assert (tmp_path / "t/result.json").read_text() == '{"a": {"b": 1}}\n{"a": {"b": 2}}\n'
    assert json.loads((tmp_path / "t/params.json").read_text()) == {"x": 2}
    assert b"_hparams_/session_end_info" in (tmp_path / "t/events.out.tfevents.a826033a").read_bytes()
    assert synced == [str(tmp_path / "t")] * 2


def test_one_of_them_alone_needs_no_trial(tmp_path: Path) -> None:
    logger = JsonLogger({"x": 1}, str(tmp_path))
    logger.on_result({"a": 1})
    assert (tmp_path / "result.json").read_text() == '{"a": 1}\n'


def test_the_default_ones_run_in_their_quick_form(tmp_path: Path) -> None:
    assert DEFAULT_LOGGERS == (JsonLogger, CSVLogger, TBXLogger)
    found = callbacks_of(DEFAULT_LOGGERS)
    assert [type(callback) for callback in found] == [JsonLoggerCallback, CSVLoggerCallback, TBXLoggerCallback]
    NoopLogger({}, str(tmp_path)).on_result({})


def test_the_experiment_of_mlflow_is_in_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    class Stub:
        def __init__(self, tracking_uri: str | None = None) -> None:
            told.append(tracking_uri)

        def setup(self) -> None:
            told.append(self._find_experiment())  # type: ignore[attr-defined]

        def log_trial_start(self, trial: Run) -> None:
            told.append(str(trial))

        def log_trial_result(self, iteration: int, trial: Run, result: dict[str, Any]) -> None:
            told.append(result)

        def log_trial_end(self, trial: Run, failed: bool) -> None:
            told.append(failed)

    assert all(
        hasattr(MLflowLoggerCallback, name) for name in ("_find_experiment", *vars(Stub).keys() - {"__module__"})
    )
    monkeypatch.setattr("kernel_compat_ray.tune.loggers.MLflowLoggerCallback", Stub)
    logger = MLFLowLogger({"mlflow_tracking_uri": "http://here", "mlflow_experiment_id": 5}, "/results/t")
    logger.on_result({"score": 1.0})
    logger.close()
    assert told == ["http://here", "5", "t", {"score": 1.0}, False]

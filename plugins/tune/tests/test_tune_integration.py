"""Callbacks for other libraries, called as these call them; the libraries themselves are stood in for."""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kernel_tune.errors import CheckpointError, MetricError, OptionalDependencyError
from kernel_tune.integration.reporting import plain
from kernel_tune.testing.reports import RunningTrial, running_trial

LIBRARIES = {
    "keras": "keras", "xgboost": "xgboost", "lightgbm": "lightgbm", "lightning": "lightning.pytorch", "torch": "torch",
}  # fmt: skip


class Model:
    """Of any library: it writes a line."""

    def __init__(self, text: str = "model", model_file: str | None = None) -> None:
        self.text = Path(model_file).read_text() if model_file else text

    def save_model(self, path: str) -> None:
        Path(path).write_text(self.text)

    save = save_checkpoint = save_model

    def save_weights(self, path: str) -> None:
        Path(path).write_text("weights")


class Hooks:
    """A library's base class of callbacks."""

    def on_epoch_end(self, *_: Any, **__: Any) -> None: ...
    def on_validation_end(self, *_: Any, **__: Any) -> None: ...
    def on_train_end(self, *_: Any, **__: Any) -> None: ...
    def on_fit_end(self, *_: Any, **__: Any) -> None: ...


def save(value: Any, path: str) -> None:
    Path(path).write_bytes(pickle.dumps(value))


STAND_INS: dict[str, dict[str, Any]] = {
    "keras": {
        "callbacks": SimpleNamespace(Callback=Hooks),
        "models": SimpleNamespace(load_model=lambda path: Model(model_file=path)),
    },
    "xgboost": {"callback": SimpleNamespace(TrainingCallback=type("TrainingCallback", (), {})), "Booster": Model},
    "lightgbm": {"Booster": Model},
    "lightning.pytorch": {"Callback": type("Callback", (Hooks,), {"on_train_epoch_end": lambda self, *_: None})},
    "torch": {"save": save, "load": lambda path, **_: pickle.loads(Path(path).read_bytes())},
}

Load = Callable[[str], Any]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Import a module of `kernel_tune.integration`, with a stand-in for its library."""

    def imported(name: str) -> Any:
        library = LIBRARIES[name]
        stand_in = ModuleType(library)
        stand_in.__dict__.update(STAND_INS[library])
        monkeypatch.setitem(sys.modules, library.partition(".")[0], stand_in)
        monkeypatch.setitem(sys.modules, library, stand_in)
        monkeypatch.delitem(sys.modules, "pytorch_lightning", raising=False)
        monkeypatch.delitem(sys.modules, f"kernel_tune.integration.{name}", raising=False)
        return importlib.import_module(f"kernel_tune.integration.{name}")

    yield imported
    for name in LIBRARIES:
        sys.modules.pop(f"kernel_tune.integration.{name}", None)


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[RunningTrial]:
    with running_trial(tmp_path) as running:
        yield running


def told(trial: RunningTrial) -> list[Any]:
    """Return what was reported, each as its metrics and the files of its checkpoint."""
    found = []
    for result, checkpoint in trial.reports():
        del result["training_iteration"]
        files = {}
        if checkpoint is not None:
            files = {path.name: path.read_text() for path in Path(checkpoint.path).iterdir() if path.name[0] != "."}
        found.append((result, files))
    return found


def test_xgboost_reports_each_round_and_saves_some(load: Load, trial: RunningTrial) -> None:
    module = load("xgboost")
    callback = module.TuneReportCheckpointCallback({"loss": "eval-logloss"}, frequency=2)
    for epoch, losses in enumerate(([0.5], [0.5, 0.25], [0.5, 0.25, np.float64(0.125)])):
        log = {"eval": {"logloss": losses, "error": losses}}
        assert callback.after_iteration(Model(f"round {epoch}"), epoch, log) is False
    final = Model("final")
    assert callback.after_training(final) is final
    *reports, (last, checkpoint) = trial.reports()
    assert [(r["loss"], c is not None) for r, c in reports] == [(0.5, False), (0.25, True), (0.125, False)]
    assert last["loss"] == 0.125 and type(last["loss"]) is float
    assert module.TuneReportCheckpointCallback.get_model(checkpoint).text == "final"
    module.TuneReportCheckpointCallback(frequency=1).after_iteration(Model(), 0, {"a": {"b": [1]}})
    assert told(trial) == [({"a-b": 1}, {"model.ubj": "model"})]


def test_xgboost_of_cross_validation_and_of_metrics_that_are_not_there(load: Load, trial: RunningTrial) -> None:
    module = load("xgboost")
    folds = SimpleNamespace()  # what xgboost.cv hands over can't be saved
    callback = module.TuneReportCheckpointCallback(frequency=1, results_postprocessing_fn=lambda r: {**r, "more": 1})
    callback.after_iteration(folds, 0, {"test": {"auc": [(0.5, 0.1)]}})
    callback.after_training(folds)
    assert told(trial) == [({"test-auc-mean": 0.5, "test-auc-std": 0.1, "more": 1}, {})]
    with pytest.raises(MetricError, match=r"XGBoost has measured no 'test-loss' here, only test-auc: give metrics"):
        module.TuneReportCallback("test-loss").after_iteration(folds, 0, {"test": {"auc": [0.5]}})
    for wrong, said in ((-1, "frequency is -1"), (True, "frequency is True"), ("often", "frequency is 'often'")):
        with pytest.raises(ValueError, match=f"{said}: it is how many events lie between checkpoints"):
            module.TuneReportCheckpointCallback(frequency=wrong)
    with pytest.raises(TypeError, match="metrics is 3: it is a name, a list of names, or a dict"):
        module.TuneReportCallback(3)


def test_xgboost_ends_where_the_trial_is_to_stop(load: Load, trial: RunningTrial) -> None:
    callback = load("xgboost").TuneReportCheckpointCallback()
    trial.stop()
    assert any(each.after_iteration(Model(), 0, {"a": {"b": [1]}}) for each in [callback])  # as XGBoost calls it
    with pytest.raises(StopIteration, match="the trial is to stop"):
        callback.after_training(Model())
    assert told(trial) == []


def test_lightgbm_reports_each_round_and_saves_the_last(load: Load, trial: RunningTrial) -> None:
    module = load("lightgbm")
    callback = module.TuneReportCheckpointCallback(["eval-l2"], filename="m.txt", frequency=2)
    for iteration in range(3):
        rows = [("eval", "l2", 1.0 / (iteration + 1), False), ("eval", "l1", 7.0, False)]
        callback(SimpleNamespace(model=Model(), iteration=iteration, end_iteration=3, evaluation_result_list=rows))
    assert [(r["eval-l2"], sorted(f)) for r, f in told(trial)] == [(1.0, []), (0.5, ["m.txt"]), (1 / 3, ["m.txt"])]
    rows = [("valid", "auc", 0.5, True, 0.1)]
    env = SimpleNamespace(model=Model(), iteration=2, end_iteration=3, evaluation_result_list=rows)
    module.TuneReportCallback()(env)
    assert told(trial) == [({"valid-auc-mean": 0.5, "valid-auc-stdv": 0.1}, {})]
    module.TuneReportCheckpointCallback()(env)
    ((_, checkpoint),) = trial.reports()
    assert module.TuneReportCheckpointCallback.get_model(checkpoint).text == "model"


def test_keras_reports_and_saves_at_events(load: Load, trial: RunningTrial) -> None:
    module = load("keras")
    callback = module.TuneReportCheckpointCallback("train_end", ["epoch_end", "test_end"], {"acc": "val_acc"})
    callback.model = Model()
    callback.on_epoch_end(0, {"val_acc": np.float32(0.5), "loss": 1.0})
    callback.on_test_end(logs={"val_acc": 0.75})
    callback.on_train_end({"val_acc": 0.875})
    assert told(trial) == [
        ({"acc": 0.5}, {}), ({"acc": 0.75}, {}), ({"acc": 0.875}, {"model.keras": "model"}),
    ]  # fmt: skip
    every_second = module.TuneReportCheckpointCallback(on="epoch_end", filename="w.weights.h5", frequency=2)
    every_second.model = Model()
    for epoch in range(3):
        every_second.on_epoch_end(epoch, {"loss": epoch})
    assert told(trial) == [({"loss": 0}, {}), ({"loss": 1}, {"w.weights.h5": "weights"}), ({"loss": 2}, {})]
    module.TuneReportCallback("loss").on_epoch_end(0, {"loss": 1.0, "other": 2})
    assert told(trial) == [({"loss": 1.0}, {})]
    named = module.TuneReportCheckpointCallback(filename="name")
    named.model = Model()
    named.on_epoch_end(0, {"loss": 3})
    ((_, checkpoint),) = trial.reports()
    assert named.get_model(checkpoint, "name.keras").text == "model"
    with pytest.raises(ValueError, match="on is 'epoch': it is one of epoch_begin, epoch_end, predict_batch_begin"):
        module.TuneReportCallback(on="epoch")
    with pytest.raises(MetricError, match="Keras has measured no 'val_acc' here, only nothing"):
        module.TuneReportCallback("val_acc").on_epoch_end(0, None)


def test_lightning_reports_what_is_logged(load: Load, trial: RunningTrial, caplog: pytest.LogCaptureFixture) -> None:
    module = load("lightning")
    trainer = SimpleNamespace(sanity_checking=True, callback_metrics={}, save_checkpoint=Model().save)
    callback = module.TuneReportCheckpointCallback({"loss": "val_loss", "acc": "val_acc"}, on=["validation_end"])
    callback.on_validation_end(trainer, None)
    trainer.sanity_checking = False
    callback.on_validation_end(trainer, None)
    trainer.callback_metrics = {"val_loss": np.array(0.5), "other": np.array(1)}
    callback.on_validation_end(trainer, pl_module=None)
    callback.on_train_end(trainer, None)
    assert told(trial) == [({"loss": 0.5}, {"checkpoint": "model"})]
    said = [record.getMessage() for record in caplog.records]
    assert said == ["Lightning has logged no val_acc and no val_loss yet, and nothing else"]
    module.TuneReportCallback(on="train_end").on_train_end(trainer, None)
    assert told(trial) == [({"val_loss": 0.5, "other": 1}, {})]
    with pytest.raises(
        ValueError, match="on is 'end': it is one of epoch_end, fit_end, train_end, train_epoch_end, validation_end"
    ):
        module.TuneReportCallback(on="end")


def test_lightning_reports_epochs_of_training(load: Load, trial: RunningTrial) -> None:
    callback = load("lightning").EpochReportCallback()
    trainer = SimpleNamespace(
        sanity_checking=False, callback_metrics={"loss": 0.5}, save_checkpoint=Model().save, current_epoch=2,
        global_step=30,
    )  # fmt: skip
    callback.on_validation_end(trainer, None)
    callback.on_train_epoch_end(trainer, None)
    assert told(trial) == [({"loss": 0.5, "epoch": 2, "step": 30}, {"checkpoint.ckpt": "model"})]


def test_lightning_ends_where_the_trial_is_to_stop(load: Load, trial: RunningTrial) -> None:
    module = load("lightning")
    trainer = SimpleNamespace(sanity_checking=False, callback_metrics={"a": 1}, should_stop=False)
    at_the_end = module.TuneReportCallback(on="fit_end")
    at_the_end.on_fit_end(trainer, None)
    assert told(trial) == [({"a": 1}, {})] and not trainer.should_stop
    callback = module.TuneReportCallback("a")
    callback.on_fit_end(trainer, None)
    trial.stop()
    callback.on_validation_end(trainer, None)  # raises nothing, as Lightning would take it for the end of a loop
    assert trainer.should_stop
    for ending in (callback, at_the_end):
        with pytest.raises(StopIteration, match="the trial is to stop"):
            ending.on_fit_end(trainer, None)


def test_states_of_torch_come_back(load: Load, tmp_path: Path) -> None:
    module = load("torch")

    class Holder:
        state: Any = None

        def state_dict(self) -> Any:
            return self.state

        def load_state_dict(self, state: Any) -> None:
            self.state = state

    model, optimizer = Holder(), Holder()
    with running_trial(tmp_path) as trial:
        assert module.load_state(model=model, optimizer=optimizer) == {}
        model.state, optimizer.state = [1, 2], {"rate": 0.5}
        module.report_state({"loss": np.float32(0.5)}, model=model, optimizer=optimizer, epoch=3)
        ((result, checkpoint),) = trial.reports()
    assert result["loss"] == 0.5
    model, optimizer = Holder(), Holder()
    with running_trial(tmp_path, checkpoint):
        assert module.load_state(model=model, optimizer=optimizer) == {"epoch": 3}
        with pytest.raises(CheckpointError, match="has no 'scheduler', only epoch, model, optimizer: load what was"):
            module.load_state(scheduler=Holder())
    assert (model.state, optimizer.state) == ([1, 2], {"rate": 0.5})


@pytest.mark.parametrize("name", ["keras", "xgboost", "lightning"])
def test_a_missing_library_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "pytorch_lightning", raising=False)
    with pytest.raises(OptionalDependencyError, match=f"'{name}', which is not installed. Run: pip install {name}"):
        importlib.import_module(f"kernel_tune.integration.{name}")


def test_only_scalars_become_plain_numbers() -> None:
    assert type(plain(np.float32(1.5))) is float and plain(np.array([2])) == 2
    assert plain("text") == "text" and isinstance(plain(np.zeros(3)), np.ndarray)

"""Callbacks and examples with the real libraries. Run by hand, where some of them are installed; those that are missing
must say so: `pip install xgboost lightgbm keras lightning torch scikit-learn`, with KERAS_BACKEND=torch.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_tune.errors import OptionalDependencyError
from kernel_tune.testing.reports import RunningTrial, running_trial

import kernel

os.environ.setdefault("KERAS_BACKEND", "torch")
GENERATOR = np.random.default_rng(0)
X = GENERATOR.random((200, 4)).astype("float32")
Y = (X[:, 0] + X[:, 1] > 1).astype(int)


def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    kernel.shutdown()
    with kernel.init(num_cpus=2, log_to_driver=False):
        yield


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "results"))


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[RunningTrial]:
    with running_trial(tmp_path) as running:
        yield running


@pytest.mark.parametrize(
    ("module", "library"), [("xgboost", "xgboost"), ("keras", "keras"), ("lightning", "lightning")]
)
def test_a_library_is_there_or_says_that_it_is_missing(module: str, library: str) -> None:
    if has(library):
        importlib.import_module(f"kernel_tune.integration.{module}")
        return
    with pytest.raises(OptionalDependencyError, match=f"pip install {library}"):
        importlib.import_module(f"kernel_tune.integration.{module}")


if has("xgboost"):
    import xgboost

    PARAMETERS = {"objective": "binary:logistic", "eval_metric": "logloss", "nthread": 1}

    def boost(callback: Any, **options: Any) -> Any:
        data = xgboost.DMatrix(X, label=Y)
        return xgboost.train(
            PARAMETERS, data, 6, evals=[(data, "eval")], verbose_eval=False, callbacks=[callback], **options
        )

    def test_xgboost(trial: RunningTrial) -> None:
        from kernel_tune.integration.xgboost import TuneReportCallback, TuneReportCheckpointCallback

        model = boost(TuneReportCheckpointCallback({"loss": "eval-logloss"}, frequency=4))
        reports = trial.reports()
        assert [checkpoint is not None for _, checkpoint in reports] == [False] * 3 + [True] + [False] * 2 + [True]
        losses = [report["loss"] for report, _ in reports]
        assert losses[:6] == sorted(losses[:6], reverse=True) and losses[5] == losses[6]
        loaded = TuneReportCheckpointCallback.get_model(reports[-1][1])  # type: ignore[arg-type]
        data = xgboost.DMatrix(X)
        assert loaded.num_boosted_rounds() == 6 and np.array_equal(loaded.predict(data), model.predict(data))
        data = xgboost.DMatrix(X, label=Y)
        xgboost.cv(PARAMETERS, data, 3, nfold=3, callbacks=[TuneReportCheckpointCallback(frequency=1)])
        reports = trial.reports()
        assert len(reports) == 3 and {"test-logloss-mean", "test-logloss-std"} <= set(reports[0][0])
        trial.stop()
        with pytest.raises(StopIteration):
            boost(TuneReportCallback())

    def test_xgboost_that_stops_early_saves_its_model(trial: RunningTrial) -> None:
        from kernel_tune.integration.xgboost import TuneReportCheckpointCallback

        data = xgboost.DMatrix(X, label=Y)
        noise = xgboost.DMatrix(X, label=1 - Y)
        xgboost.train(PARAMETERS, data, 50, evals=[(noise, "eval")], early_stopping_rounds=2, verbose_eval=False,
                      callbacks=[TuneReportCheckpointCallback()])  # fmt: skip
        reports = trial.reports()
        assert 3 <= len(reports) <= 5 and reports[-1][1] is not None

    @pytest.mark.usefixtures("session", "results")
    def test_xgboost_example() -> None:
        from kernel_tune.examples import xgboost_example

        found = xgboost_example.main(smoke_test=True)
        assert found.num_errors == 0 and found.get_best_result().metrics["error"] < 0.3
        assert xgboost_example.best_model(found).num_boosted_rounds() in (5, 6)


if has("lightgbm"):
    import lightgbm

    SETTINGS = {"objective": "binary", "metric": "binary_logloss", "verbose": -1, "num_threads": 1}

    def test_lightgbm(trial: RunningTrial) -> None:
        from kernel_tune.integration.lightgbm import TuneReportCallback, TuneReportCheckpointCallback

        data = lightgbm.Dataset(X, label=Y, free_raw_data=False)
        callbacks = [TuneReportCheckpointCallback({"loss": "eval-binary_logloss"}, frequency=4)]
        model = lightgbm.train(SETTINGS, data, 6, valid_sets=[data], valid_names=["eval"], callbacks=callbacks)
        reports = trial.reports()
        assert [checkpoint is not None for _, checkpoint in reports] == [False] * 3 + [True, False, True]
        assert reports[-1][0]["loss"] < reports[0][0]["loss"]
        loaded = TuneReportCheckpointCallback.get_model(reports[-1][1])  # type: ignore[arg-type]
        assert np.allclose(loaded.predict(X), model.predict(X))
        lightgbm.cv(SETTINGS, data, 3, nfold=3, callbacks=[TuneReportCallback()])
        assert set(trial.reports()[0][0]) >= {"valid-binary_logloss-mean", "valid-binary_logloss-stdv"}
        callbacks = [lightgbm.early_stopping(2, verbose=False), TuneReportCallback("eval-binary_logloss")]
        noise = lightgbm.Dataset(X, label=1 - Y, reference=data)
        lightgbm.train(SETTINGS, data, 50, valid_sets=[noise], valid_names=["eval"], callbacks=callbacks)
        assert len(trial.reports()) == 3, "the round that stops is reported, too"
        trial.stop()
        with pytest.raises(StopIteration):
            lightgbm.train(SETTINGS, data, 3, valid_sets=[data], callbacks=[TuneReportCallback()])

    @pytest.mark.usefixtures("session", "results")
    def test_lightgbm_example() -> None:
        from kernel_tune.examples import lightgbm_example

        found = lightgbm_example.main(smoke_test=True)
        assert found.num_errors == 0 and found.get_best_result().metrics["error"] < 0.4
        assert lightgbm_example.best_model(found).num_trees() in (5, 6)


if has("keras"):

    def test_keras(trial: RunningTrial) -> None:
        import keras
        from kernel_tune.integration.keras import TuneReportCallback, TuneReportCheckpointCallback

        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, activation="sigmoid")])
        model.compile("sgd", "binary_crossentropy", metrics=["accuracy"])
        saving = TuneReportCheckpointCallback(metrics={"acc": "val_accuracy", "loss": "loss"}, frequency=2)
        model.fit(X, Y, epochs=3, validation_data=(X, Y), verbose=0, callbacks=[saving])
        reports = trial.reports()
        assert [checkpoint is not None for _, checkpoint in reports] == [False, True, False]
        assert set(reports[0][0]) == {"acc", "loss", "training_iteration"} and type(reports[0][0]["acc"]) is float
        loaded = TuneReportCheckpointCallback.get_model(reports[1][1])  # type: ignore[arg-type]
        assert loaded.predict(X, verbose=0).shape == (200, 1)
        weights = TuneReportCheckpointCallback(on="train_end", filename="model.weights.h5")
        model.fit(X, Y, epochs=1, verbose=0, callbacks=[weights])
        ((_, checkpoint),) = trial.reports()
        assert "model.weights.h5" in os.listdir(checkpoint.path)  # type: ignore[union-attr]
        model.load_weights(os.path.join(checkpoint.path, "model.weights.h5"))  # type: ignore[union-attr]
        model.fit(X, Y, epochs=1, batch_size=50, verbose=0, callbacks=[TuneReportCallback("loss", "train_batch_end")])
        assert len(trial.reports()) == 4
        trial.stop()
        with pytest.raises(StopIteration):
            model.fit(X, Y, epochs=1, verbose=0, callbacks=[TuneReportCallback()])

    @pytest.mark.usefixtures("session", "results")
    def test_keras_example() -> None:
        from kernel_tune.examples import digits_keras_example

        found = digits_keras_example.main(smoke_test=True)
        assert found.num_errors == 0 and found.get_best_result().metrics["mean_accuracy"] > 0.6
        assert found.get_best_result().checkpoint is not None


if has("torch"):

    def test_torch_loops_go_on_where_they_were(tmp_path: Path) -> None:
        import torch
        from kernel_tune.integration.torch import load_state, report_state

        def loop(steps: int) -> Any:
            torch.manual_seed(0)
            model = torch.nn.Linear(4, 1)
            optimizer = torch.optim.Adam(model.parameters(), 0.1)
            done = load_state(model=model, optimizer=optimizer).get("steps", 0)
            for step in range(done, steps):
                optimizer.zero_grad()
                loss = (model(torch.tensor(X))[:, 0] - torch.tensor(Y)).square().mean()
                loss.backward()
                optimizer.step()
                report_state({"loss": loss.detach()}, model=model, optimizer=optimizer, steps=step + 1)

        with running_trial(tmp_path / "a") as trial:
            loop(6)
            whole = [report["loss"] for report, _ in trial.reports()]
        with running_trial(tmp_path / "b") as trial:
            loop(3)
            first = trial.reports()
        with running_trial(tmp_path / "c", first[-1][1]) as trial:
            loop(6)
            second = trial.reports()
        assert [report["loss"] for report, _ in first + second] == whole and type(whole[0]) is float

    @pytest.mark.usefixtures("session", "results")
    def test_torch_example() -> None:
        from kernel_tune.examples import digits_torch_example

        found = digits_torch_example.main(smoke_test=True)
        assert found.num_errors == 0 and found.get_best_result().metrics["mean_accuracy"] > 0.3

    QUICK_START = """
import kernel_compat_ray.install
import torch.optim as optim
from ray import tune
from ray.tune.examples.mnist_pytorch import get_data_loaders, ConvNet, train, test

def train_mnist(config):
    train_loader, test_loader = get_data_loaders()
    model = ConvNet()
    optimizer = optim.SGD(model.parameters(), lr=config["lr"])
    for i in range(10):
        train(model, optimizer, train_loader)
        acc = test(model, test_loader)
        tune.track.log(mean_accuracy=acc)

analysis = tune.run(
    train_mnist, config={"lr": tune.grid_search([0.001, 0.01, 0.1])}, verbose=0)
best = analysis.get_best_config(metric="mean_accuracy")
print(sorted(trial.results for trial in analysis.trials), best["lr"] in (0.001, 0.01, 0.1))
print(max(trial.metrics["mean_accuracy"].max for trial in analysis.trials) > 0.6)
"""
    STAND_IN = """
import torch

class transforms:
    Compose = ToTensor = Normalize = staticmethod(lambda *arguments: None)

class datasets:
    @staticmethod
    def MNIST(root, train, download, transform):
        torch.manual_seed(0)
        images = torch.rand(10, 1, 28, 28)
        labels = torch.arange(2000) % 10
        return torch.utils.data.TensorDataset(images[labels] + torch.randn(2000, 1, 28, 28) / 10, labels)
"""

    @pytest.mark.usefixtures("results")
    def test_the_quick_start_of_the_first_releases_runs(tmp_path: Path) -> None:
        """With pictures that are easier than the real ones, which would have to be downloaded."""
        tmp_path.joinpath("torchvision.py").write_text(STAND_IN)
        tmp_path.joinpath("quick_start.py").write_text(QUICK_START)
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "MNIST_DIRECTORY": str(tmp_path / "data")}
        program = [sys.executable, str(tmp_path / "quick_start.py")]
        done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=170)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == ["[10,", "10,", "10]", "True", "True"]


if has("lightning") and has("torch"):

    def test_lightning(trial: RunningTrial, tmp_path: Path) -> None:
        import lightning.pytorch as pl
        import torch
        from kernel_tune.integration.lightning import TuneReportCallback, TuneReportCheckpointCallback

        class Module(pl.LightningModule):
            def __init__(self) -> None:
                super().__init__()
                self.layer = torch.nn.Linear(4, 1)

            def loss(self, batch: Any) -> Any:
                return (self.layer(batch[0])[:, 0] - batch[1]).square().mean()

            def training_step(self, batch: Any, number: int) -> Any:
                self.log("train_loss", self.loss(batch))
                return self.loss(batch)

            def validation_step(self, batch: Any, number: int) -> None:
                self.log("val_loss", self.loss(batch))

            def configure_optimizers(self) -> Any:
                return torch.optim.SGD(self.parameters(), 0.1)

        data = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y).float()), batch_size=50
        )

        def fit(callback: Any, epochs: int, checkpoint: str | None = None) -> None:
            trainer = pl.Trainer(max_epochs=epochs, callbacks=[callback], logger=False, enable_checkpointing=False,
                                 enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
                                 default_root_dir=tmp_path)  # fmt: skip
            trainer.fit(Module(), data, data, ckpt_path=checkpoint)

        fit(TuneReportCheckpointCallback({"loss": "val_loss"}), 3)
        reports = trial.reports()
        assert len(reports) == 3 and reports[-1][0]["loss"] < reports[0][0]["loss"]
        fit(TuneReportCallback(on="train_epoch_end"), 5, os.path.join(reports[-1][1].path, "checkpoint"))  # type: ignore[union-attr]
        more = trial.reports()
        assert len(more) == 2 and {"train_loss", "val_loss"} <= set(more[0][0]) and more[0][1] is None
        trial.stop()
        with pytest.raises(StopIteration):
            fit(TuneReportCallback("val_loss"), 1)

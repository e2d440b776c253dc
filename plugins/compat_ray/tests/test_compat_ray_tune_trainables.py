"""Trainables of `ray.tune` with the methods of the first releases: by themselves, and as trials."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import pytest
from kernel_compat_ray.tune.trainable import DurableTrainable, Trainable

import kernel
from kernel import runs
from kernel import tune as library
from kernel.runs.loggers import Logger


class Older(Trainable):
    """Overrides all methods by their older names, and calls those that do something."""

    logged: list[Any]

    def _setup(self, config: dict[str, Any]) -> None:
        super()._setup(config)
        self.count = config["start"]
        self.logged = []

    def _train(self) -> dict[str, Any]:
        self.count += 1
        return {"count": self.count, "done": self.count == 3}

    def _save(self, checkpoint_dir: str) -> Any:
        path = os.path.join(checkpoint_dir, "count.txt")
        Path(path).write_text(str(self.count))
        return path

    def _restore(self, checkpoint: Any) -> None:
        self.count = int(Path(checkpoint).read_text())

    def _stop(self) -> None:
        super()._stop()
        self.logged.append("stopped")

    def _log_result(self, result: dict[str, Any]) -> None:
        super()._log_result(result)
        self.logged.append(result["count"])

    def _export_model(self, export_formats: list[str], export_dir: str) -> dict[str, str]:
        assert super()._export_model(export_formats, export_dir) == {}
        return {name: os.path.join(export_dir, name) for name in export_formats}


def test_older_methods_are_called_and_may_call_those_of_the_base(tmp_path: Path) -> None:
    heard: list[Any] = []

    class Hearing(Logger):
        def on_result(self, result: dict[str, Any]) -> None:
            heard.append(result["count"])

    one = Older({"start": 0}, logger_creator=lambda config: Hearing(config, str(tmp_path)))
    assert one.train()["count"] == 1 and one.export_model("model") == {"model": str(tmp_path / "model")}
    saved = one.save()
    assert one.train()["count"] == 2
    one.restore(saved)
    assert one.train()["count"] == 2 and heard == [1, 2, 2]
    one.stop()
    assert one.logged == [1, 2, 2, "stopped"] and Older.can_save()


def test_what_a_class_does_not_have_is_said_as_by_kernel() -> None:
    class Nothing(Trainable):
        pass

    one, other = Nothing(), type("Nothing", (runs.Trainable,), {})()
    assert not Nothing.can_save() and issubclass(Nothing, runs.Trainable)
    for ask in (lambda it: it.step(), lambda it: it.save(), lambda it: it.load_checkpoint({})):
        said = []
        for each in (one, other):
            with pytest.raises(NotImplementedError) as error:
                ask(each)
            said.append(str(error.value))
        assert said[0] == said[1]


def test_methods_of_today_come_first() -> None:
    class Both(Older):
        def step(self) -> dict[str, Any]:
            return {"count": -1}

    class Durable(DurableTrainable):
        def _setup(self, config: dict[str, Any]) -> None:
            self.count = config["start"]

        def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
            return {}

    assert Both({"start": 0}).train()["count"] == -1
    assert (
        Durable({"start": 5}).count == 5 and Durable.can_save() and Durable("memory://there", {"start": 6}).count == 6
    )


def test_all_trainables_are_those_of_ray(fresh_ray: None) -> None:
    tune: ModuleType = importlib.import_module("ray.tune")
    assert tune.Trainable is Trainable is importlib.import_module("ray.tune.trainable").Trainable
    assert tune.DurableTrainable is DurableTrainable and issubclass(DurableTrainable, runs.DurableTrainable)
    assert issubclass(DurableTrainable, Trainable) and issubclass(runs.Trainable, Trainable)
    assert issubclass(tune.trainable.wrap_function(len), Trainable) and not issubclass(runs.Trainable, Older)
    assert isinstance(runs.Trainable(), Trainable) and not isinstance(runs.Trainable(), Older)
    assert cloudpickle.loads(cloudpickle.dumps(Trainable)) is Trainable


def test_a_trial_is_run_by_older_methods(tmp_path: Path) -> None:
    kernel.shutdown()
    with kernel.init(num_cpus=1, log_to_driver=False):
        options: dict[str, Any] = {"local_dir": str(tmp_path), "verbose": 0, "checkpoint_at_end": True}
        (trial,) = library.run(Older, config={"start": 0}, **options).trials
        assert trial.results == 3 and trial.last_result["count"] == 3
        (checkpoint,) = Path(trial.logdir).glob("checkpoint_*/count.txt")
        (again,) = library.run(Older, config={"start": 0}, restore=str(checkpoint), stop={"count": 5}, **options).trials
        assert (again.results, again.last_result["count"]) == (2, 5)

"""Trainables as classes, outside of any experiment: steps, what is filled in, saving and restoring."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from kernel_runs import Checkpoint, CheckpointError, DurableTrainable, Trainable
from kernel_runs.loggers import Logger
from kernel_runs.place import Place


class Counter(Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        self.count = config.get("start", 0)

    def step(self) -> dict[str, Any]:
        self.count += 1
        return {"count": self.count, "timesteps_this_iter": 10}

    def save_checkpoint(self, checkpoint_dir: str) -> Any:
        return {"count": self.count}

    def load_checkpoint(self, checkpoint: Any) -> None:
        self.count = checkpoint["count"]

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.setup(new_config)
        return True


def test_each_step_is_counted_and_filled_in() -> None:
    counter = Counter({"start": 5})
    first, second = counter.train(), counter.train()
    assert (first["count"], second["count"]) == (6, 7) and counter.iteration == 2 == counter.training_iteration
    assert (first["training_iteration"], second["training_iteration"]) == (1, 2)
    assert (first["timesteps_total"], second["timesteps_total"]) == (10, 20) and "episodes_total" not in second
    assert second["done"] is False and second["config"] == {"start": 5} and second["pid"] == os.getpid()
    assert second["experiment_id"] == first["experiment_id"] == counter.experiment_id
    assert second["time_total_s"] == first["time_this_iter_s"] + second["time_this_iter_s"]
    assert second["iterations_since_restore"] == 2 and second["trial_id"] is None
    assert counter.get_config() == {"start": 5} and counter.trial_name is None and counter.trial_resources is None


def test_where_it_runs_is_the_place_of_the_process(tmp_path: Path) -> None:
    Place.set_current(Place("id", "name", "experiment", str(tmp_path / "run"), {"CPU": 1}))
    try:
        counter = Counter()
        assert (counter.trial_id, counter.trial_name, counter.trial_resources) == ("id", "name", {"CPU": 1})
        assert counter.logdir == str(tmp_path / "run") and os.path.isdir(counter.logdir)
    finally:
        Place.set_current(None)
    other = Counter()
    assert other.logdir == other.logdir != counter.logdir and os.path.isdir(other.logdir), "made when it is needed"


def test_what_is_no_dict_is_no_result() -> None:
    class Wrong(Trainable):
        def step(self) -> Any:
            return 5

    with pytest.raises(TypeError, match=r"^Wrong.step\(\) returned int, not a dict of metrics"):
        Wrong().train()


def test_it_goes_on_from_what_it_saved(tmp_path: Path) -> None:
    counter = Counter()
    before = [counter.train() for _ in range(3)][-1]
    again = Counter()
    again.restore(counter.save(str(tmp_path / "saved")))
    after = again.train()
    assert after["count"] == 4 and after["training_iteration"] == 4 and after["iterations_since_restore"] == 1
    assert after["experiment_id"] == before["experiment_id"] and after["timesteps_total"] == 40
    assert after["time_total_s"] > before["time_total_s"] and after["time_since_restore"] < after["time_total_s"]

    third = Counter()
    third.restore(Checkpoint(counter.save()))
    assert third.train()["count"] == 4 and os.path.basename(counter.save()) == "checkpoint_000003"
    third.restore(os.path.join(counter.logdir, "checkpoint_3"))  # as older programs write it
    assert third.count == 3
    fourth = Counter()
    fourth.restore_from_object(counter.save_to_object())
    assert fourth.train()["count"] == 4 and not [name for name in os.listdir(fourth.logdir) if name.startswith(".")]


class Files(Counter):
    where = "inside"

    def save_checkpoint(self, checkpoint_dir: str) -> str:
        path = os.path.join(checkpoint_dir, self.where) if self.where else checkpoint_dir
        os.makedirs(path, exist_ok=True)
        Path(path, "count").write_text(str(self.count))
        return path

    def load_checkpoint(self, checkpoint: str) -> None:
        self.count = int(Path(checkpoint, "count").read_text())


@pytest.mark.parametrize("where", ["inside", ""])
def test_files_may_be_anywhere_in_the_directory_that_was_given(where: str, tmp_path: Path) -> None:
    one = Files({"start": 7})
    one.where = where
    path = one.save(str(tmp_path / "saved"))
    assert path == str(tmp_path / "saved" / where).rstrip("/")
    (tmp_path / "saved").rename(tmp_path / "moved")
    two = Files()
    two.restore(path.replace("saved", "moved"))
    assert two.count == 7
    two.delete_checkpoint(path.replace("saved", "moved"))
    assert not (tmp_path / "moved").exists()
    two.delete_checkpoint(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("/somewhere/else", "returned the path /somewhere/else, which is not in the directory that it was given"),
        (5, r"Elsewhere.save_checkpoint\(\) returned int: it may return None, a path inside .*, or a dict"),
    ],
)
def test_what_save_checkpoint_may_not_return_is_named(value: Any, message: str) -> None:
    class Elsewhere(Counter):
        def save_checkpoint(self, checkpoint_dir: str) -> Any:
            return value

    with pytest.raises(CheckpointError, match=message):
        Elsewhere().save()


def test_what_is_no_checkpoint_of_a_trainable_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"is not a checkpoint of a trainable: there is no .tune_metadata in it or above"
    ):
        Counter().restore(str(tmp_path))


def test_it_becomes_another_run_where_its_class_can() -> None:
    counter = Counter({"start": 1})
    counter.train()
    assert counter.reset({"start": 10}, Place("other")) and counter.config == {"start": 10}
    assert (counter.iteration, counter.trial_id) == (0, "other") and counter.train()["count"] == 11
    assert Trainable().reset({}) is False


def test_who_can_save_is_known_by_its_methods() -> None:
    class Helped(Trainable):
        def _save(self) -> Any:
            """A helper of the class's own."""

    assert Counter.can_save() and not Helped.can_save() and not Trainable.can_save()


def test_methods_of_the_class_s_own_may_have_any_other_name(tmp_path: Path) -> None:
    class Named(Counter):
        def _setup(self, *nothing: Any) -> None:
            raise AssertionError("it is called by nobody")

        _train = _save = _restore = _stop = _log_result = _export_model = _setup

    one = Named({"start": 1})
    one.restore(one.save(str(tmp_path / "saved")))
    assert one.train()["count"] == 2 and one.export_model("model", str(tmp_path)) == {}
    one.stop()


def test_results_go_to_the_logger_and_models_are_exported_by_the_class(tmp_path: Path) -> None:
    logged: list[Any] = []

    class Logging(Logger):
        def on_result(self, result: dict[str, Any]) -> None:
            logged.append(result["count"])

        def close(self) -> None:
            logged.append("closed")

    class Exporting(Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            self.count = config["start"]

        def step(self) -> dict[str, Any]:
            return {"count": self.count}

        def save_checkpoint(self, checkpoint_dir: str) -> Any:
            return {"count": self.count + 1}

        def load_checkpoint(self, checkpoint: Any) -> None:
            self.count = checkpoint["count"]

        def cleanup(self) -> None:
            logged.append("stopped")

        def log_result(self, result: dict[str, Any]) -> None:
            super().log_result(result)

        def export(self, export_formats: list[str], export_dir: str) -> dict[str, str]:
            return {name: os.path.join(export_dir, name) for name in export_formats}

    one = Exporting({"start": 1}, logger_creator=lambda config: Logging(config, str(tmp_path)))
    assert one.train()["count"] == 1 and one.logdir == str(tmp_path)
    assert one.export_model("model") == {"model": str(tmp_path / "model")}
    one.restore(one.save())
    assert one.train()["count"] == 2
    one.stop()
    assert logged == [1, 2, "closed", "stopped"]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda one: one.train(), r"Trainable has no step\(\), which a trial calls for each iteration"),
        (lambda one: one.save(), r"Trainable has no save_checkpoint\(\) and load_checkpoint\(\)"),
        (lambda one: one.load_checkpoint({}), r"Trainable has no load_checkpoint\(\)"),
    ],
)
def test_what_a_class_lacks_is_named(use: Any, message: str) -> None:
    with pytest.raises(NotImplementedError, match=message):
        use(Trainable({}))
    assert Trainable({}).export_model(["onnx"]) == {} and Trainable.default_resource_request({}) is None
    assert Trainable.resource_help({}) == ""


def test_what_is_saved_in_memory_goes_through_named_directories() -> None:
    seen: list[str] = []

    class Prints(Trainable):
        def save_checkpoint(self, checkpoint_dir: str) -> str:
            seen.append(checkpoint_dir)
            Path(checkpoint_dir, "my").mkdir()
            return os.path.join(checkpoint_dir, "my")

        def load_checkpoint(self, checkpoint: str) -> None:
            seen.append(checkpoint)

    trainer = Prints()
    trainer.restore_from_object(trainer.save_to_object())
    saved, loaded = (
        re.escape(trainer.logdir) + rf"/\.\w+{end}/checkpoint_0" for end in ("save_to_object", "restore_from_object")
    )
    assert re.fullmatch(saved, seen[0]) and re.fullmatch(loaded + "/my", seen[1]) and not os.listdir(trainer.logdir)


class Durable(DurableTrainable, Counter):
    pass


@pytest.mark.parametrize("by_argument", [True, False])
def test_a_durable_one_keeps_its_checkpoints_elsewhere(by_argument: bool, tmp_path: Path) -> None:
    elsewhere = f"file://{tmp_path}/elsewhere"
    if by_argument:
        durable = Durable(elsewhere, {"start": 3})
    else:
        durable = Durable({"start": 3})
        durable._run_place = Place(trial_name="named", upload_dir=elsewhere)
    assert durable.train()["count"] == 4
    path = durable.save()
    name = "trial" if by_argument else "named"
    assert sorted(os.listdir(tmp_path / "elsewhere" / name)) == ["checkpoint_000001"]
    Trainable.delete_checkpoint(durable, path)
    assert not os.path.exists(path)
    durable.count = 0
    durable.restore(Checkpoint(path))
    assert durable.count == 4 and os.path.exists(path)
    durable.delete_checkpoint(path)
    assert not os.path.exists(path) and not os.listdir(tmp_path / "elsewhere" / name)


def test_a_durable_one_without_an_address_is_as_any_other() -> None:
    durable = Durable({"start": 3})
    assert durable.storage_client is None
    durable.restore(durable.save())
    durable.delete_checkpoint(os.path.join(durable.logdir, "checkpoint_000000"))
    assert durable.count == 3 and os.listdir(durable.logdir) == []

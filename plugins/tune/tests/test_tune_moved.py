"""What is a part of `kernel_runs` is found under the names that it had here, and is the same object."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from typing import Any

import pytest
from kernel_tune import moved

import kernel_runs
from kernel import tune

LOGGERS = (
    "base", "comet", "crc32c", "csv_logger", "encoding", "events", "files", "flat", "hparams", "json_logger",
    "mlflow", "per_trial", "pretty", "protobuf", "tensorboard", "trial_file", "wandb",
)  # fmt: skip
NAMES = {
    "analysis.result": "Result",
    "errors": "CheckpointError OptionalDependencyError TrialError",
    "execution.resources": "Demand PlacementGroupFactory Request Resources make_request total",
    "raised": "ERROR_FILE RAISED_FILE carried rebuilt",
    "result": "AUTO_KEYS CONFIG DONE TRAINING_ITERATION flatten look_up own_keys with_plain_numbers",
    "settings": "CheckpointConfig FailureConfig RunConfig SyncConfig made",
    "storage.checkpoint": "Checkpoint METADATA_FILE being_written directory_name pack publish unpack written_as",
    "storage.sync": "Copy SyncCallback check_address is_remote",
    "trainable.session": "checkpoint_dir current enter get_checkpoint get_context leave metrics_of report",
}
"""Modules of which a part is there, with names that programs and pickles say."""


@pytest.mark.parametrize("old", [*moved.MOVED, *(f"kernel_tune.loggers.{name}" for name in LOGGERS)])
def test_a_module_is_the_same_object(old: str) -> None:
    module = importlib.import_module(old)
    real = moved.MOVED.get(old) or old.replace("kernel_tune", "kernel_runs")
    assert module is importlib.import_module(real) and module.__name__ == real == module.__spec__.name
    assert importlib.import_module(old.replace("kernel_tune", "kernel.tune")) is module, "as it is mounted"
    parent, _, name = old.rpartition(".")
    assert getattr(sys.modules[parent], name) is module


@pytest.mark.parametrize(("module", "names"), NAMES.items())
def test_names_of_modules_that_moved_in_part_are_the_same_objects(module: str, names: str) -> None:
    found = importlib.import_module(f"kernel_tune.{module}")
    for name in names.split():
        value = getattr(found, name)
        where = getattr(value, "__module__", "kernel_runs")
        assert where.startswith(("kernel_runs", "typing", "types", "builtins", "collections")), (module, name, where)


@pytest.mark.parametrize("name", sorted(set(kernel_runs.__all__) & set(tune.__all__)))
def test_what_both_export_is_one(name: str) -> None:
    assert getattr(tune, name) is getattr(kernel_runs, name)


def test_there_is_one_report_and_one_base_of_errors_and_of_trials() -> None:
    assert tune.report is kernel_runs.report and tune.get_context is kernel_runs.get_context
    assert tune.TuneError is kernel_runs.RunError and tune.TuneContext is kernel_runs.Context
    assert issubclass(tune.Trial, kernel_runs.Run)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("kernel_tune.loggers.csv_logger", "CSVFile"), ("kernel_tune.trainable.function", "FunctionTrainable"),
        ("kernel_tune.raised", "rebuilt"), ("kernel_tune.trainable.session", "TuneContext"),
        ("kernel_tune.result", "Result"),
    ],
)  # fmt: skip
def test_a_pickle_that_names_it_loads_in_a_process_that_has_loaded_nothing(module: str, name: str) -> None:
    pickled = f"c{module}\n{name}\n.".encode()
    program = f"import pickle, sys; pickle.loads({pickled!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0 and "kernel_runs" in done.stdout.split(), done.stderr
    assert pickle.loads(pickled) is getattr(importlib.import_module(module), name)


def test_a_module_that_never_was_is_not_found() -> None:
    for name in ("kernel_tune.loggers.nothing", "kernel_tune.nothing", "kernel_tune.trainable.nothing"):
        with pytest.raises(ModuleNotFoundError, match=f"No module named '{name}'"):
            importlib.import_module(name)


def test_installing_twice_adds_one_finder() -> None:
    finders: list[Any] = [each for each in sys.meta_path if isinstance(each, moved._Finder)]
    moved.install()
    assert [each for each in sys.meta_path if isinstance(each, moved._Finder)] == finders and len(finders) == 1

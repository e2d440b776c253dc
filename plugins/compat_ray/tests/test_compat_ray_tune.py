"""`ray.tune`: the library, and besides that the names and modules that were attributes of it in earlier releases."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import cloudpickle
import pytest
from kernel_compat_ray import finder
from kernel_compat_ray.errors import NotSupportedError

import kernel.tune as library


@pytest.fixture
def tune() -> Iterator[ModuleType]:
    there = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "ray"}
    finder.install_finder()
    yield importlib.import_module("ray.tune")
    finder.remove_finder()
    sys.modules.update(there)


OWN = {
    "run", "run_experiments", "choice", "create_scheduler", "create_searcher", "loguniform", "uniform",
    "DurableTrainable", "RunConfig", "Searcher", "Trainable", "Tuner",
}  # fmt: skip


def test_its_names_are_those_of_the_library(tune: ModuleType) -> None:
    assert all(getattr(tune, name) is getattr(library, name) for name in {*library.__all__} - OWN)
    assert importlib.import_module("ray.tune.schedulers") is tune.schedulers
    assert tune.schedulers.FIFOScheduler is library.schedulers.FIFOScheduler
    assert {*library.schedulers.__all__} <= {*tune.schedulers.__all__}
    assert importlib.import_module("ray.tune.searchers") is library.searchers
    assert {*library.__all__, "Logger", "function"} <= {*tune.__all__} & {*dir(tune)}
    with pytest.raises(AttributeError, match=r"module 'ray.tune' has no attribute 'runn'; did you mean 'run'\?"):
        tune.runn  # noqa: B018 - it is what raises


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("suggest.repeater", "TRIAL_INDEX"), ("logger", "pretty_print"), ("utils", "pin_in_object_store"),
        ("trial", "ExportFormat"), ("registry", "get_trainable_cls"), ("web_server", "TuneClient"),
        ("schedulers.async_hyperband", "ASHAScheduler"),
        ("util", "validate_save_restore"), ("error", "TuneError"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_older_modules_are_attributes(tune: ModuleType, module: str, name: str) -> None:
    found = tune
    for part in (*module.split("."), name):
        found = getattr(found, part)
    assert found is not None


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("context", "get_context"), ("execution.placement_groups", "PlacementGroupFactory"),
        ("experiment.experiment", "Experiment"), ("experiment.trial", "ExportFormat"),
        ("logger.logger", "LoggerCallback"), ("logger.mlflow", "MLflowLoggerCallback"),
        ("schedulers.resource_changing_scheduler", "DistributeResources"), ("search.bohb.bohb_search", "TuneBOHB"),
        ("search.optuna.optuna_search", "OptunaSearch"), ("stopper", "CombinedStopper"),
        ("stopper.maximum_iteration", "MaximumIterationStopper"), ("stopper.stopper", "Stopper"),
        ("trainable.function_trainable", "wrap_function"), ("trainable.trainable_fn_utils", "report"),
        ("trainable.util", "with_resources"), ("tune_config", "ResumeConfig"), ("utils.util", "date_str"),
    ],
)  # fmt: skip
def test_what_is_imported_from_modules_of_the_newest_releases(tune: ModuleType, module: str, name: str) -> None:
    assert getattr(importlib.import_module(f"ray.tune.{module}"), name) is not None


def test_the_library_stays_as_it_is_without_ray(tune: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tune.Logger is not None
    with pytest.raises(AttributeError, match="module 'kernel_tune' has no attribute 'Logger'"):
        library.Logger  # noqa: B018 - it is what raises
    monkeypatch.setattr("ray.tune.run", len)
    assert tune.run is len and library.run is not len


def test_what_is_pickled_by_its_name_is_found(tune: ModuleType) -> None:
    for value in (tune, tune.run, tune.Tuner, tune.TuneConfig(metric="loss"), tune.Logger, tune.schedulers):
        copied = cloudpickle.loads(cloudpickle.dumps(value))
        assert copied is value or copied == value


TRACKED = """
import kernel_compat_ray.install
from pathlib import Path
import ray
from ray import tune

def train(config):
    tune.track.init()
    tune.track.log(place=[tune.track.trial_name(), tune.track.trial_id(), tune.track.trial_dir(), tune.track.logdir()])
    tune.track.shutdown()
    tune.track.log(place="nowhere")
    Path("after").write_text(repr([tune.track.trial_name(), tune.track.trial_id(), tune.track.trial_dir()]))

ray.init(num_cpus=1)
(trial,) = tune.run(train, verbose=0).trials
assert trial.results == 1
assert trial.last_result["place"] == [str(trial), trial.trial_id, trial.logdir, trial.logdir]
print(Path(trial.logdir, "after").read_text())
"""


def test_who_has_shut_tracking_down_reports_nothing_more(tmp_path: Path) -> None:
    path = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": path, "TUNE_RESULT_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", TRACKED], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=200
    )
    assert done.stdout == "[None, None, None]\n", done.stderr


def test_names_that_are_needed_no_more(tune: ModuleType) -> None:
    assert tune.function(len) is len
    with pytest.warns(DeprecationWarning, match="ray.tune.CLIRunner is an old name; use ray.tune.CLIReporter"):
        assert tune.CLIRunner is library.CLIReporter


def test_the_runner_can_be_imported_and_says_what_to_use(tune: ModuleType) -> None:
    runner = importlib.import_module("ray.tune.trial_runner").TrialRunner

    def annotated(trial_runner: runner) -> None: ...  # type: ignore[valid-type]

    with pytest.raises(NotSupportedError, match=r"TrialRunner is not supported: use tune.run or tune.Tuner, which run"):
        runner(scheduler=None)


def test_examples_that_there_are_not_name_those_that_there_are(tune: ModuleType) -> None:
    with pytest.raises(ImportError, match=r"in kernel.tune.examples: digits_torch_example and digits_keras_example"):
        importlib.import_module("ray.tune.examples.tune_mnist_keras")
    if importlib.util.find_spec("torch") is None:
        with pytest.raises(ImportError, match=r"digits_torch_example.*needs the library 'torch'.*pip install torch"):
            importlib.import_module("ray.tune.examples.mnist_pytorch")


def test_helpers_for_dicts_and_resources(tune: ModuleType) -> None:
    utils = importlib.import_module("ray.tune.utils")
    assert utils.flatten_dict({"a": {"b": [1, {"c": 2}]}, "d": {}}) == {"a/b": [1, {"c": 2}], "d": {}}
    assert utils.flatten_dict({"a": [1, {"c": 2}]}, ".", flatten_list=True) == {"a.0": 1, "a.1.c": 2}
    with pytest.raises(ValueError, match="key 'a/b' has the delimiter"):
        utils.flatten_dict({"a/b": 1}, prevent_delimiter=True)
    assert utils.unflattened_lookup("a/1/c", {"a": [1, {"c": 2}]}) == 2
    assert utils.unflattened_lookup("a/x", {"a": {}}, default=5) == 5
    with pytest.raises(KeyError):
        utils.unflattened_lookup("a/9", {"a": [1]})
    first = {"a": {"b": 1}}
    assert utils.merge_dicts(first, {"a": {"c": 2}}) == {"a": {"b": 1, "c": 2}} and first == {"a": {"b": 1}}
    assert utils.diagnose_serialization(len) is True
    groups = importlib.import_module("ray.tune.execution.placement_groups")
    assert groups.resource_dict_to_pg_factory({"cpu": 2, "gpu": 1}).bundles() == [{"CPU": 2.0, "GPU": 1.0}]
    with pytest.raises(NotSupportedError, match="a trial that asks for a GPU begins when it has one of its own"):
        utils.wait_for_gpu()
